"""Where a sequence plays: members with connections, and the record of what was said.

Order between connections is made certain by probes: after a request that waits for others, a
request about the same group on another connection must be answered before the script goes on.
Nothing here depends on how fast the broker is, apart from deadlines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.integration.groups_golden.connection import ConnectionClosed, GoldenConnection, Pending
from tests.integration.groups_golden.normalising import Normaliser
from tests.integration.groups_golden.rendering import Json, api_name, render
from tests.integration.harness.waiting import wait_until

from towpath.kafka.codec.error_codes import ErrorCode
from towpath.kafka.codec.messages.describe_groups import DescribeGroupsRequest
from towpath.kafka.codec.messages.leave_group import LeaveGroupRequest
from towpath.kafka.codec.messages.list_groups import ListGroupsResponse
from towpath.kafka.codec.schema import ApiMessage

PROBES = 2
"""How many probes make certain that a waiting request was taken in: Kafka may read both requests
off their sockets in either order once."""
STRANGER = "a stranger who probes"
POLL_INTERVAL_S = 0.05


class Scene:
    """One run of one sequence. `group` is the sequence's own group id."""

    def __init__(self, name: str, port: int, topic_ids: dict[str, str]) -> None:
        self.group = name
        self.topic_ids = topic_ids
        self.steps: list[Json] = []
        self._port = port
        self._normaliser = Normaliser()
        for topic, topic_id in topic_ids.items():
            self._normaliser.know_topic(topic, topic_id)
        self._connections: list[GoldenConnection] = []
        self._probe = self._connect("probe")

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.close()

    def peer(self, name: str) -> Peer:
        """A new connection whose client id is `name`."""
        return Peer(self, name, self._connect(name))

    def know_topic(self, name: str, topic_id: str) -> None:
        """A topic was made during the sequence."""
        self.topic_ids[name] = topic_id
        self._normaliser.know_topic(name, topic_id)

    def probe(self, group: str | None = None) -> None:
        """Return after everything sent so far about the group has been taken in.

        A stranger's LeaveGroup changes nothing, but as it might, it stands in line behind every
        other change of the group.
        """
        request = LeaveGroupRequest(group_id=group or self.group, member_id=STRANGER)
        for _ in range(PROBES):
            assert self.look(request, 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def look(self, request: ApiMessage, version: int) -> Any:
        """Ask without recording it."""
        return self._probe.send(request, version).read()

    def look_until(
        self, request: ApiMessage, version: int, enough: Callable[[Any], bool], what: str
    ) -> None:
        """Ask, without recording it, until the answer is `enough`."""
        wait_until(lambda: enough(self.look(request, version)), what, interval_s=POLL_INTERVAL_S)

    def until_members(self, count: int, group: str | None = None) -> None:
        """Wait until a classic group has `count` members."""
        self.look_until(
            DescribeGroupsRequest(groups=[group or self.group]),
            0,
            lambda answer: len(answer.groups[0].members) == count,
            f"{count} members",
        )

    def until_state(self, state: str, group: str | None = None) -> None:
        """Wait until a classic group is seen in `state`: what Kafka does not write to its log, as
        the start of a rebalance, is shown with some delay."""
        self.look_until(
            DescribeGroupsRequest(groups=[group or self.group]),
            0,
            lambda answer: answer.groups[0].group_state == state,
            state,
        )

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass where the point is that nothing is to be seen."""
        time.sleep(duration_ms / 1000)

    def record_answer(self, who: str, pending: Pending, answer: ApiMessage) -> None:
        """Note a request and its answer."""
        step = self._said(who, pending)
        step["answer"] = self._rendered(answer, pending.version)
        self.steps.append(step)

    def record_closed(self, who: str, pending: Pending) -> None:
        """Note a request that the broker answered by hanging up."""
        self.steps.append(self._said(who, pending) | {"answer": "connection closed"})

    def record_waits(self, who: str, pending: Pending, waits: bool) -> None:
        """Note whether a request is still without an answer."""
        self.steps.append({"by": who, "request": self._title(pending), "waits": waits})

    def _said(self, who: str, pending: Pending) -> dict[str, Json]:
        request = pending.request
        fields = render(request, pending.version, defaults=False)
        return {
            "by": who,
            "request": self._title(pending),
            "fields": self._normaliser.apply(api_name(request), fields),
        }

    def _title(self, pending: Pending) -> str:
        return f"{api_name(pending.request)} v{pending.version}"

    def _rendered(self, answer: ApiMessage, version: int) -> Json:
        if isinstance(answer, ListGroupsResponse):
            answer.groups = [g for g in answer.groups if g.group_id.startswith(self.group)]
        return self._normaliser.apply(api_name(answer), render(answer, version))

    def _connect(self, name: str) -> GoldenConnection:
        connection = GoldenConnection(self._port, name)
        self._connections.append(connection)
        return connection


class Peer:
    """One connection of a scene, which may be a member of a group."""

    def __init__(self, scene: Scene, name: str, connection: GoldenConnection) -> None:
        self.scene = scene
        self.name = name
        self._connection = connection

    def ask(self, request: ApiMessage, version: int | None = None) -> Any:
        """Send a request, and record it with its answer."""
        return self.finish(self.send(request, version))

    def ask_until(
        self,
        request: ApiMessage,
        enough: Callable[[Any], bool],
        what: str,
        version: int | None = None,
    ) -> Any:
        """Repeat a request until its answer is `enough`; only that answer is recorded."""
        last: list[tuple[Pending, Any]] = []

        def look() -> bool:
            pending = self.send(request, version)
            last[:] = [(pending, pending.read())]
            return enough(last[0][1])

        wait_until(look, what, interval_s=POLL_INTERVAL_S, timeout_s=30)
        pending, answer = last[0]
        self.scene.record_answer(self.name, pending, answer)
        return answer

    def ask_closed(self, request: ApiMessage, version: int | None = None) -> None:
        """Send a request that the broker answers by closing the connection."""
        pending = self.send(request, version)
        try:
            answer = pending.read()
        except ConnectionClosed:
            self.scene.record_closed(self.name, pending)
        else:
            self.scene.record_answer(self.name, pending, answer)

    def send(self, request: ApiMessage, version: int | None = None) -> Pending:
        """Send a request and record nothing yet. The newest version is used if none is named."""
        chosen = type(request).VERSIONS[1] if version is None else version
        return self._connection.send(request, chosen)

    def park(self, request: ApiMessage, version: int | None = None) -> Pending:
        """Send a request that waits for others, and return when the broker has taken it in."""
        pending = self.send(request, version)
        self.scene.probe(getattr(request, "group_id", None))
        return pending

    def still_waits(self, pending: Pending) -> None:
        """Record whether the request is without an answer after everything sent so far."""
        self.scene.probe(getattr(pending.request, "group_id", None))
        self.scene.record_waits(self.name, pending, not pending.has_answer())

    def finish(self, pending: Pending) -> Any:
        """Read and record the answer to a request."""
        answer = pending.read()
        self.scene.record_answer(self.name, pending, answer)
        return answer
