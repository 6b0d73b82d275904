"""Driver, executor and broker are killed, or stopped for longer than their leases, while a topic is
turned into a table, at every state of the saga.

Whoever goes on, and whatever the one that stood still does when it wakes up: every committed offset
is in the table exactly once, and every fetch gives the records that were sent (I4, I5).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from tests.faults.processes.rounds import rounds
from tests.faults.processes.saga_compactors import as_variables
from tests.faults.processes.saga_scene import (
    COMPACTOR_SETTINGS,
    MORE_RECORDS,
    POINTS,
    RECORDS,
    SagaScene,
)
from tests.faults.processes.saga_spark import PYTHON_PATH, is_stopped
from tests.integration.harness.process_tree import wait_until_gone
from tests.integration.harness.server_process import ServerProcess
from tests.integration.harness.waiting import wait_until

from towpath.lakehouse.plan import JobKind
from towpath.metadata.keys.compaction import TaskState

pytestmark = [pytest.mark.needs_server, pytest.mark.timeout(300)]

MANY_ROUNDS = 5
FAULTS = ("kill", "stop")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
STATES = {
    "CREATED": "compaction-created",
    "PARQUET_WRITTEN": "compaction-parquet-written",
    "ICEBERG_COMMITTED": "compaction-iceberg-committed",
    "INDEX_SWAPPED": "compaction-index-swapped",
    "WAL_GC_READY": "compaction-wal-gc-ready",
}
QUIET_POINTS = ("compaction-iceberg-committed", "compaction-index-swapped")
"""Nothing is written while drivers stand here, so that the key which they were about to overwrite,
or to leave alone, is there when they wake up, with files of a later task."""
OWN_SPARK_TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SagaScene]:
    """Brokers and a Spark for all rounds."""
    scene = SagaScene(tmp_path_factory.mktemp("saga"))
    try:
        scene.start()
        yield scene
    finally:
        scene.end()


@pytest.fixture
def scene(shared_scene: SagaScene) -> Iterator[SagaScene]:
    """The shared processes. What they logged is shown when the test fails."""
    yield shared_scene
    print(shared_scene.tidy_up())


def kinds(point: str, fault: str, rounds: int) -> list[JobKind]:
    """The kinds of task that the rounds strike: in turns, and the two faults of a point begin with
    different ones."""
    first = list(POINTS).index(point) + FAULTS.index(fault)
    both = (JobKind.COMPACT, JobKind.REWRITE)
    return [both[(first + number) % 2] for number in range(rounds)]


@pytest.mark.parametrize("rounds", rounds(1, MANY_ROUNDS))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("point", POINTS)
def test_another_driver_goes_on(scene: SagaScene, point: str, fault: str, rounds: int) -> None:
    for kind in kinds(point, fault, rounds):
        with scene.history() as history:
            victim = scene.strike(history, point, fault, kind)
            struck = scene.struck_partitions()
            if point not in QUIET_POINTS:
                history.send(MORE_RECORDS)
            heir = scene.heir()
            scene.settle(history, merged=struck)
            history.check()
            if fault == "stop":
                victim.resume()
                history.send(MORE_RECORDS)
                scene.settle(history)
            heir.stop()
            if fault == "stop":
                # Now it is alone: once these are in the table it has done its round.
                history.send(MORE_RECORDS)
                scene.settle(history)
                victim.stop()
                history.check()


@pytest.mark.parametrize("rounds", rounds(1, MANY_ROUNDS))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("state", STATES)
def test_the_driver_goes_on_without_its_executor(
    scene: SagaScene, state: str, fault: str, rounds: int
) -> None:
    point = STATES[state]
    for kind in kinds(point, fault, rounds):
        with scene.history() as history:
            driver = scene.strike(history, point, "stop", kind)
            if state == "CREATED":
                # A Python worker, at the end of its job: its files are there, nobody knows.
                scene.spark.strike.touch()
                driver.resume()
                struck = scene.spark.stopped_worker()
                os.kill(struck, SIGNALS[fault])
                assert TaskState.CREATED in {task.state for task in scene.metadata.tasks()}
            else:
                struck = scene.spark.executor()
                os.kill(struck, SIGNALS[fault])
                driver.resume()
                history.send(MORE_RECORDS)
            if fault == "stop":
                scene.outlast_lock()
                os.kill(struck, signal.SIGCONT)
            scene.settle(history)
            history.send(MORE_RECORDS)
            scene.settle(history)
            driver.stop()
            history.check()


@pytest.mark.parametrize("rounds", rounds(1, MANY_ROUNDS))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("state", STATES)
def test_every_broker_shows_the_same_records(
    scene: SagaScene, state: str, fault: str, rounds: int
) -> None:
    point = STATES[state]
    for kind in kinds(point, fault, rounds):
        with scene.history() as history:
            history.check_broker(scene.pair.struck.kafka_port)
            driver = scene.strike(history, point, "stop", kind)
            history.check_broker(scene.pair.struck.kafka_port)
            if fault == "kill":
                scene.kill_broker()
            else:
                scene.stop_broker()
            history.send(MORE_RECORDS)
            history.check_log()
            driver.resume()
            if fault == "kill":
                scene.pair.struck.restart()
            scene.settle(history)
            if fault == "stop":
                scene.pair.resume()
            # At once, with all that it remembers from before.
            history.check_broker(scene.pair.struck.kafka_port)
            scene.pair.wait_both()
            driver.stop()
            history.check()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_driver_and_its_own_spark(scene: SagaScene, fault: str) -> None:
    with scene.history() as history:
        history.send(RECORDS)
        victim = own_spark(scene)
        try:
            wait_until(lambda: is_stopped(victim.pid), "struck", timeout_s=OWN_SPARK_TIMEOUT_S)
            processes = victim.descendants()
            assert len(processes) >= 2, "a JVM and its workers"
            if fault == "kill":
                os.kill(victim.pid, signal.SIGKILL)
                wait_until_gone(processes)
            heir = scene.heir()
            scene.settle(history)
            heir.stop()
            history.check()
            if fault == "stop":
                os.kill(victim.pid, signal.SIGCONT)
                history.send(MORE_RECORDS)
                scene.settle(history)
                assert victim.stop() == 0
                wait_until_gone(processes)
                history.check()
        finally:
            victim.kill()
            print(victim.log_tail())


def own_spark(scene: SagaScene) -> ServerProcess:
    """A compactor as users start it, with a JVM of its own, that stops itself in its first task."""
    fault = {"fault_point": "compaction-parquet-written", "fault_action": "stop"}
    variables = as_variables({**COMPACTOR_SETTINGS, "spark_ui_port": "0", **fault})
    variables["PYTHONPATH"] = PYTHON_PATH
    command = [sys.executable, "-m", "towpath", "compactor", "--data-dir", str(scene.data_dir)]
    victim = ServerProcess(command, scene.data_dir / "own-spark.log", variables, [])
    victim.spawn()
    return victim
