"""Jobs on real Spark: a local session, a standalone cluster and a Spark Connect server.

Starting a JVM takes seconds, so tests share one session where they can. A process has one classic
session at a time: a test that needs another one ends the shared one, which then starts again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytest_asyncio
from tests.integration.harness.ports import free_ports
from tests.integration.harness.process_tree import (
    descendants,
    is_alive,
    listening_addresses,
    wait_until_gone,
)
from tests.integration.harness.spark_cluster import EXECUTOR_CONF, ConnectServer, SparkCluster
from tests.integration.harness.spark_jobs import (
    REPOSITORY,
    WORKER_PATH,
    act,
    attempt_of,
    make_job,
    pid_of,
)
from tests.integration.harness.waiting import wait_until
from tests.unit.lakehouse.helpers_jobs import SeenProgress

from towpath.lakehouse.jobs import key_compact
from towpath.lakehouse.plan import Job, JobKind, JobProgress, JobResult, ParquetFile
from towpath.lakehouse.runners import spark_connect
from towpath.lakehouse.runners.open import open_runner
from towpath.lakehouse.runners.runner import Runner, RunnerUnavailable
from towpath.lakehouse.runners.spark_connect import SparkConnectRunner
from towpath.lakehouse.runners.spark_rdd import SparkRddRunner
from towpath.lakehouse.runners.spark_settings import SparkSettings
from towpath.objects.worker import open_worker_objects
from towpath.records import table

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark's directory; a space in its name must not matter."""
    return tmp_path_factory.mktemp("spark files")


@pytest.fixture(scope="module")
def shared(work_dir: Path) -> Iterator[SparkRddRunner]:
    """A runner on a local session of two cores, which starts with its first run."""
    settings = SparkSettings(
        work_dir,
        master="local[2,4]",
        conf={"spark.executorEnv.PYTHONPATH": WORKER_PATH},
        ui_port=free_ports(),
        idle_stop_ms=None,
    )
    runner = open_runner(settings, act)
    assert isinstance(runner, SparkRddRunner)
    yield runner
    asyncio.run(runner.close())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A standalone cluster with two workers."""
    servers = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest_asyncio.fixture
async def on_cluster(
    shared: SparkRddRunner, cluster: SparkCluster, tmp_path: Path
) -> AsyncIterator[SparkRddRunner]:
    """A runner with its driver here and its executors on the cluster."""
    await shared.idle()
    settings = SparkSettings(
        tmp_path / "driver", master=cluster.master_url, conf=EXECUTOR_CONF, ui_port=None
    )
    runner = SparkRddRunner(settings, act)
    yield runner
    await runner.close()
    print(cluster.log())


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Spark Connect server."""
    server = ConnectServer(tmp_path_factory.mktemp("connect"))
    try:
        server.start()
        yield server
    finally:
        print(server.process.log_tail())
        server.stop()


@pytest_asyncio.fixture
async def over_connect(
    connect_server: ConnectServer, tmp_path: Path
) -> AsyncIterator[SparkConnectRunner]:
    """A runner on the Connect server."""
    runner = open_runner(SparkSettings(tmp_path, remote=connect_server.url), act)
    assert isinstance(runner, SparkConnectRunner)
    yield runner
    await runner.close()


def pids_in(directory: Path, count: int = 1) -> list[int]:
    """The processes of the jobs that wait in a directory, if there are `count` or more."""
    found = [int(path.suffix[1:]) for path in directory.glob("task-*.*")]
    return found if len(found) >= count else []


async def waiting_pids(directory: Path, count: int) -> list[int]:
    """The processes of the jobs that wait in a directory, once there are `count`."""
    return await asyncio.to_thread(
        wait_until, lambda: pids_in(directory, count), "jobs that wait", timeout_s=PATIENCE_S
    )


def check_mixed(results: list[JobResult], seen: list[JobResult]) -> None:
    """The results of ten jobs of which the fourth cannot be done."""
    assert [result.task_id for result in results] == [f"task-{number}" for number in range(10)]
    assert [result.error for result in results if result.error] == ["ValueError: it cannot be done"]
    assert results[3].error
    assert [result.record_count for result in results[4:]] == [4, 5, 6, 7, 8, 9]
    assert sorted(seen, key=lambda result: result.task_id) == results
    assert len({attempt_of(result) for result in results if not result.error}) == 2
    assert len({pid_of(result) for result in results if not result.error}) == 2


async def test_jobs_run_in_two_tasks_and_fail_by_themselves(shared: SparkRddRunner) -> None:
    seen = SeenProgress()
    jobs = [make_job(number, "fail" if number == 3 else "echo") for number in range(10)]
    check_mixed(await shared.run(jobs, seen), seen.results)
    assert await shared.run([]) == []


async def test_workers_tell_how_far_they_are(shared: SparkRddRunner, tmp_path: Path) -> None:
    seen = SeenProgress()
    run = asyncio.ensure_future(shared.run([make_job(7, "wait", tmp_path)], seen))
    await waiting_pids(tmp_path, 1)
    async with asyncio.timeout(PATIENCE_S):
        await seen.advance.wait()
    assert seen.advances[0] == JobProgress("task-7", 50, 1)
    assert seen.results == []
    (tmp_path / "go").touch()
    assert await run == seen.results


async def test_the_ui_shows_topics_and_offsets(shared: SparkRddRunner) -> None:
    await shared.run([make_job(number, "clicks") for number in range(5)])
    assert shared.settings.ui_port is not None

    def jobs_page() -> str:
        url = f"http://127.0.0.1:{shared.settings.ui_port}/jobs/"
        return str(urllib.request.urlopen(url).read().decode())

    page = await asyncio.to_thread(jobs_page)
    assert "compact clicks-0 [0, 100)" in page
    assert "+2 more" in page


async def test_everything_listens_on_this_machine_only(shared: SparkRddRunner) -> None:
    await shared.run([make_job(0)])
    jvm = shared.session.jvm_pid
    assert jvm is not None
    addresses = set(map(frozenset, map(listening_addresses, [jvm, *descendants(jvm)])))
    assert addresses <= {frozenset(), frozenset({"127.0.0.1"})}
    assert listening_addresses(jvm) == {"127.0.0.1"}


async def test_a_killed_worker_is_replaced_and_its_task_run_again(
    shared: SparkRddRunner, tmp_path: Path
) -> None:
    run = asyncio.ensure_future(shared.run([make_job(n, "wait", tmp_path) for n in range(2)]))
    first, second = await waiting_pids(tmp_path, 2)
    os.kill(first, signal.SIGKILL)
    await waiting_pids(tmp_path, 3)
    (tmp_path / "go").touch()
    results = await run
    assert [result.error for result in results] == [None, None]
    assert sorted(attempt_of(result)[:2] for result in results) == ["0-", "1-"]
    assert first not in map(pid_of, results)
    assert second in map(pid_of, results)


async def test_a_job_that_kills_every_worker_fails_alone(shared: SparkRddRunner) -> None:
    seen = SeenProgress()
    jobs = [make_job(number, "die" if number == 1 else "echo") for number in range(4)]
    results = await shared.run(jobs, seen)
    assert [result.error is None for result in results] == [True, False, True, True]
    assert "exited unexpectedly" in (results[1].error or "")
    assert sorted(seen.results, key=lambda result: result.task_id) == results


async def test_a_lost_session_fails_its_run_and_is_started_again(
    shared: SparkRddRunner, tmp_path: Path
) -> None:
    run = asyncio.ensure_future(shared.run([make_job(0, "wait", tmp_path)]))
    (worker,) = await waiting_pids(tmp_path, 1)
    jvm = shared.session.jvm_pid
    assert jvm is not None
    os.kill(jvm, signal.SIGKILL)
    with pytest.raises(RunnerUnavailable, match="Spark's JVM ended with -9"):
        await run
    await asyncio.to_thread(wait_until_gone, [worker])
    (result,) = await shared.run([make_job(1)])
    assert result.error is None
    assert shared.session.jvm_pid != jvm


async def test_an_idle_session_ends_with_all_its_processes(
    shared: SparkRddRunner, work_dir: Path
) -> None:
    path = list(sys.path)
    await shared.run([make_job(0)])
    jvm = shared.session.jvm_pid
    assert jvm is not None
    processes = [jvm, *descendants(jvm)]
    assert len(processes) > 2
    await shared.idle()
    assert not is_alive(jvm)
    await asyncio.to_thread(wait_until_gone, processes)
    assert not {name for name in os.listdir(work_dir) if name.startswith("session-")}
    (result,) = await shared.run([make_job(1)])
    assert result.error is None
    await shared.idle()
    assert [entry for entry in sys.path if entry not in path] == []


async def test_a_cancelled_run_leaves_nothing_running(
    shared: SparkRddRunner, tmp_path: Path
) -> None:
    run = asyncio.ensure_future(shared.run([make_job(0, "wait", tmp_path)]))
    (worker,) = await waiting_pids(tmp_path, 1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert shared.session.jvm_pid is None
    await asyncio.to_thread(wait_until_gone, [worker])


@pytest.mark.parametrize("where", ["local", "cluster"])
def test_nothing_survives_a_driver_that_is_killed(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    servers = request.getfixturevalue("cluster") if where == "cluster" else None
    master = "local[2,4]" if servers is None else servers.master_url
    arguments = [str(tmp_path / "work"), master, str(tmp_path)]
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.harness.spark_driver", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": WORKER_PATH},
    )
    (worker,) = wait_until(lambda: pids_in(tmp_path), "a job that waits", timeout_s=PATIENCE_S)
    processes = [*descendants(driver.pid), *([] if servers is None else servers.executors())]
    assert worker in processes
    driver.kill()
    driver.wait()
    wait_until_gone(processes, timeout_s=PATIENCE_S)


async def test_a_cluster_that_loses_a_worker_finishes_the_run(
    on_cluster: SparkRddRunner, cluster: SparkCluster, tmp_path: Path
) -> None:
    jobs = [make_job(number, "wait", tmp_path) for number in range(4)]
    run = asyncio.ensure_future(on_cluster.run(jobs))
    before = await waiting_pids(tmp_path, 2)
    cluster.kill_worker(0)
    try:
        (lost,) = await asyncio.to_thread(
            wait_until,
            lambda: [pid for pid in before if not is_alive(pid)],
            "a lost executor",
            timeout_s=PATIENCE_S,
        )
        (tmp_path / "go").touch()
        results = await run
        assert [result.error for result in results] == [None] * 4
        assert lost not in map(pid_of, results)
        assert {attempt_of(result)[:2] for result in results} == {"0-", "1-"}
    finally:
        cluster.restart_worker(0)


async def test_spark_connect_runs_the_same_jobs(over_connect: SparkConnectRunner) -> None:
    seen = SeenProgress()
    jobs = [make_job(number, "fail" if number == 3 else "echo") for number in range(10)]
    check_mixed(await over_connect.run(jobs, seen), seen.results)
    await over_connect.idle()
    (result,) = await over_connect.run([make_job(0)])
    assert result.error is None


async def test_spark_connect_runs_a_task_again_and_isolates_a_killer(
    over_connect: SparkConnectRunner, tmp_path: Path
) -> None:
    (result,) = await over_connect.run([make_job(0, "die-once", tmp_path)])
    assert (result.error, attempt_of(result)[:2]) == (None, "1-")
    results = await over_connect.run([make_job(1), make_job(2, "die")])
    assert [result.error is None for result in results] == [True, False]


async def test_spark_connect_stops_what_was_cancelled(
    over_connect: SparkConnectRunner, tmp_path: Path
) -> None:
    run = asyncio.ensure_future(over_connect.run([make_job(0, "wait", tmp_path)]))
    (worker,) = await waiting_pids(tmp_path, 1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.to_thread(wait_until_gone, [worker])
    (result,) = await over_connect.run([make_job(1)])
    assert result.error is None


async def test_a_connect_server_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_connect, "RETRIES_MAX", 1)
    remote = f"sc://127.0.0.1:{free_ports()}"
    runner = open_runner(SparkSettings(tmp_path, remote=remote), act)
    with pytest.raises(RunnerUnavailable, match="Spark Connect failed"):
        await runner.run([make_job(0)])
    await runner.close()


def job_with_keys(directory: Path) -> Job:
    """A key compaction over three files, most of whose records are superseded."""
    schema = table.arrow_schema()
    files = []
    for number in range(3):
        first = number * 1000
        count = 1000
        rows = pa.table(
            {
                table.PARTITION: pa.array([0] * count, pa.int32()),
                table.OFFSET: pa.array(range(first, first + count), pa.int64()),
                table.TIMESTAMP: pa.array([0] * count, pa.int64()).cast(table.TIMESTAMP_TYPE),
                table.KEY: [
                    None if at % 97 == 0 else b"key %d" % (at % 150) for at in range(count)
                ],
                table.VALUE: [b"value"] * count,
                table.HEADERS: pa.array([[]] * count, schema.field(table.HEADERS).type),
                table.PRODUCER_ID: pa.nulls(count, pa.int64()),
                table.PRODUCER_EPOCH: pa.nulls(count, pa.int32()),
                table.BASE_SEQUENCE: pa.nulls(count, pa.int32()),
                table.ATTRIBUTES: pa.array([0] * count, pa.int32()),
            }
        ).cast(schema)
        path = f"{number}.parquet"
        pq.write_table(rows, directory / path)
        size_bytes = (directory / path).stat().st_size
        files.append(ParquetFile(path, size_bytes, 0, count, first, first + count - 1, 0, 0))
    return Job(
        task_id="keys",
        kind=JobKind.KEY_COMPACT,
        topic="orders",
        partition=0,
        start=0,
        end=3000,
        output_dir="out/",
        objects_url=f"file://{directory}",
        field_ids=table.DEFAULT_FIELD_IDS,
        files=tuple(files),
    )


async def check_shuffle(runner: Runner, directory: Path) -> None:
    job = job_with_keys(directory)
    shuffled = await runner.shuffle(job)
    assert shuffled.survivors
    objects = open_worker_objects(job.objects_url)
    # With the survivors known, no key is held in memory any more.
    small = replace(shuffled, key_memory_bytes=0)
    assert key_compact.run(replace(small, survivors=()), objects, "a").needs_shuffle
    found = [key_compact.run(one, objects, f"b{at}") for at, one in enumerate((job, small))]
    offsets = [
        pq.read_table(directory / result.files[0].path)[table.OFFSET].to_pylist()
        for result in found
    ]
    assert offsets[0] == offsets[1]
    assert len(offsets[0]) == 150
    assert min(offsets[0]) >= 2000


async def test_spark_sql_finds_survivors(shared: SparkRddRunner, tmp_path: Path) -> None:
    await check_shuffle(shared, tmp_path)


async def test_spark_connect_finds_survivors(
    over_connect: SparkConnectRunner, tmp_path: Path
) -> None:
    await check_shuffle(over_connect, tmp_path)
