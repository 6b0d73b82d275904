"""Records what Apache Kafka's own assignors answer, for `test_recorded_assignments.py`.

Run by hand, where a JDK is installed: `python tests/unit/groups/kafka_assignments/record.py`.
Each history is one group whose members and subscriptions change; what Kafka answered is what the
members have at the next change.
"""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import uuid
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
PREPARE = HERE.parents[2] / "integration" / "java" / "prepare.py"
SEED = 848
HISTORIES = 40
CHANGES = 6


class Peer:
    """The Java program that asks Kafka's assignors."""

    def __init__(self) -> None:
        spec = importlib.util.spec_from_file_location("prepare", PREPARE)
        assert spec is not None
        assert spec.loader is not None
        prepare = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(prepare)
        self._process = subprocess.Popen(
            ["java", "-cp", prepare.class_path(), str(HERE / "AssignorPeer.java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Kafka's answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _uuid(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def _subscription(chance: random.Random, topics: list[str], mixed: bool) -> list[str]:
    return sorted(chance.sample(topics, chance.randint(1, len(topics)))) if mixed else topics


def _history(chance: random.Random, peer: Peer) -> list[dict[str, Any]]:
    topics = {_uuid(chance): chance.randint(1, 9) for _ in range(chance.randint(1, 4))}
    mixed, assignor = chance.random() < 0.5, chance.choice(["uniform", "uniform", "range"])
    members: dict[str, Any] = {}
    recorded = []
    for _ in range(CHANGES):
        for _ in range(chance.randint(1, 3)):
            if len(members) > 1 and chance.random() < 0.35:
                del members[chance.choice(sorted(members))]
            else:
                members[_uuid(chance)] = {
                    "instance": _uuid(chance) if chance.random() < 0.3 else None,
                    "topics": _subscription(chance, sorted(topics), mixed),
                    "assigned": {},
                }
        if mixed and chance.random() < 0.3:
            changed = members[chance.choice(sorted(members))]
            changed["topics"] = _subscription(chance, sorted(topics), mixed)
        if chance.random() < 0.2:
            topics[chance.choice(sorted(topics))] += chance.randint(1, 3)
        asked = {"assignor": assignor, "topics": dict(topics), "members": members}
        answer = peer.ask(asked)
        recorded.append(json.loads(json.dumps({"asked": asked, "answer": answer})))
        for member_id, member in members.items():
            member["assigned"] = answer.get(member_id, {})
    return recorded


def main() -> None:
    """Write the file."""
    chance = random.Random(SEED)
    peer = Peer()
    try:
        cases = [case for _ in range(HISTORIES) for case in _history(chance, peer)]
    finally:
        peer.close()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    RECORDED.write_text(f"[\n{lines}\n]\n")
    print(f"{len(cases)} cases in {RECORDED}")


if __name__ == "__main__":
    main()
