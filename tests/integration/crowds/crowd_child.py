"""Several consumers of one group in one process, so that many fit and a crash takes some of them.
Each has a thread of its own: none keeps another one from joining, committing or leaving in time.

Usage: `python -m tests.integration.crowds.crowd_child SETTINGS` (JSON). Commands come on stdin, one
JSON list per line: `["join", NAME]`, `["leave", NAME]`, `["end"]`. Events go to stdout, one JSON
list per line: kind, member, time in ns of the machine's monotonic clock, and what happened.
"""

from __future__ import annotations

import json
import sys

from tests.integration.crowds.member import CrowdMember


def kind_of_member(library: str) -> type[CrowdMember]:
    """The members of a client library; only that one is loaded."""
    if library == "aiokafka":
        from tests.integration.crowds.aiokafka_member import AioKafkaMember

        return AioKafkaMember
    if library == "kafka-python":
        from tests.integration.crowds.kafka_python_member import KafkaPythonMember

        return KafkaPythonMember
    from tests.integration.crowds.confluent_member import ConfluentMember

    return ConfluentMember


def main() -> None:
    """Serve commands until the end."""
    settings = json.loads(sys.argv[1])
    make = kind_of_member(settings["library"])
    members: dict[str, CrowdMember] = {}
    for line in sys.stdin:
        kind, *names = json.loads(line)
        if kind == "join":
            members[names[0]] = make(names[0], settings)
            members[names[0]].start()
        elif kind == "leave":
            members[names[0]].leave()
        else:
            break
    for member in members.values():
        member.leave()
    for member in members.values():
        member.wait_left()


if __name__ == "__main__":
    main()
