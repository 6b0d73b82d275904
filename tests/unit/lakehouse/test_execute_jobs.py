"""What happens to a job in a worker, and how it gets there and back."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.unit.lakehouse.helpers_jobs import SeenProgress, some_job

from towpath.lakehouse.plan import Job, JobKind, JobResult, ParquetFile
from towpath.lakehouse.runners import execute as execute_module
from towpath.lakehouse.runners.execute import execute, guarded
from towpath.lakehouse.runners.in_process import InProcessRunner
from towpath.lakehouse.runners.travel import Delivery, run_packed


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The urls of stores that were opened; the jobs' modules are replaced by ones that report."""
    urls: list[str] = []

    def open_store(url: str, options: dict[str, str]) -> str:
        urls.append(url)
        return f"store of {url} {options}"

    worker: Any = ModuleType("worker")
    worker.open_worker_objects = open_store
    monkeypatch.setitem(sys.modules, "towpath.objects.worker", worker)
    for kind in JobKind:
        name = f"towpath.lakehouse.jobs.{kind.value.replace('-', '_')}"
        run = lambda job, objects, attempt, kind=kind: JobResult(  # noqa: E731
            job.task_id, error=f"{kind.value} {objects} {attempt}"
        )
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(run=run))
    monkeypatch.setattr(execute_module, "open_objects", execute_module.open_objects.__wrapped__)
    return urls


@pytest.mark.parametrize("kind", list(JobKind))
def test_a_job_is_run_by_the_module_of_its_kind(opened: list[str], kind: JobKind) -> None:
    job = replace(some_job(7, kind=kind), objects_options={"region": "x"})
    store = "store of file:///nowhere {'region': 'x'}"
    assert execute(job, "a1") == JobResult("task-7", error=f"{kind.value} {store} a1")
    assert opened == ["file:///nowhere"]


def test_a_store_is_opened_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []
    worker: Any = ModuleType("worker")
    worker.open_worker_objects = lambda url, options: urls.append(url + options["k"])
    monkeypatch.setitem(sys.modules, "towpath.objects.worker", worker)
    execute_module.open_objects.cache_clear()
    stores = [("file:///a", "1"), ("file:///b", "1"), ("file:///a", "1"), ("file:///a", "2")]
    for url, value in stores:
        execute_module.open_objects(url, (("k", value),))
    execute_module.open_objects.cache_clear()
    assert urls == ["file:///a1", "file:///b1", "file:///a2"]


def failing(job: Job, attempt: str) -> JobResult:
    """A job of a real kind that fails as real ones do."""
    if job.partition == 1:
        raise OSError("the disk\n  is gone")
    file = ParquetFile(f"out/{attempt}", 5, 1, 1, 10, 19, 0, 0)
    return JobResult(job.task_id, (file,), 10)


def guarded_failing(job: Job, attempt: str) -> JobResult:
    """As a worker runs it."""
    return guarded(failing, job, attempt)


async def test_a_failure_is_a_result_of_its_job_only() -> None:
    seen = SeenProgress()
    runner = InProcessRunner(failing)
    results = await runner.run([some_job(number) for number in range(3)], seen)
    assert [result.error for result in results] == [None, "OSError: the disk is gone", None]
    assert seen.results == results
    again = await runner.run([some_job(0)])
    assert again[0].files[0].path not in {file.path for r in results for file in r.files}
    await runner.idle()
    await runner.close()


def test_jobs_travel_there_and_back_with_their_places() -> None:
    jobs = [some_job(number, size_bytes) for number, size_bytes in enumerate((5, 90 << 20, 7))]
    delivery = Delivery(jobs, 2)
    assert [len(task) for task in delivery.tasks] == [1, 2]
    arrived = [
        delivery.arrive(data)
        for task in reversed(delivery.tasks)
        for data in run_packed(guarded_failing, task)
    ]
    results = delivery.results
    assert arrived == [results[2], results[0], results[1]]
    assert [result.task_id for result in results] == ["task-0", "task-1", "task-2"]
    assert [result.error for result in results] == [None, "OSError: the disk is gone", None]


def test_every_attempt_has_a_name_of_its_own() -> None:
    task = Delivery([some_job(0), some_job(2)], 1)
    packed = task.tasks[0]
    for data in run_packed(guarded_failing, packed):
        task.arrive(data)
    again = Delivery([some_job(0), some_job(2)], 1)
    for data in run_packed(guarded_failing, packed):
        again.arrive(data)
    first, second = ([r.files[0].path for r in run.results] for run in (task, again))
    assert first[0] == first[1] != second[0] == second[1]
    assert first[0].startswith("out/0-")
