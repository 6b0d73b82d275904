"""Deletes of files, many per directory sync: they happen in the background and come in crowds.

A delete is synced, because the collector forgets an object after it: a file that power loss brings
back would stay for ever. Syncing each one by itself would slow down the puts of the same disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence

from towpath.objects.fs_files import Directories
from towpath.threads import WorkThreads

DELETE_BATCH_MAX = 256
"""Deletes that one thread hop takes along."""


class BatchedDeletes:
    """Collects the deletes asked for while the batch before them runs, and runs them together."""

    def __init__(self, root: str, directories: Directories, threads: WorkThreads) -> None:
        self._root = root
        self._directories = directories
        self._threads = threads
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._runner: asyncio.Task[None] | None = None

    async def delete(self, path: str) -> None:
        """Remove the file for good; raises OSError. A missing one is no error."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((path, done))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        await done

    async def drain(self) -> None:
        """Wait until no delete is under way."""
        while self._runner is not None:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:DELETE_BATCH_MAX]
                del self._waiting[:DELETE_BATCH_MAX]
                paths = [path for path, _ in batch]
                failures = await self._threads.run_to_end(self._delete_all, paths)
                for (_, done), failure in zip(batch, failures, strict=True):
                    if done.done():
                        continue
                    if failure is None:
                        done.set_result(None)
                    else:
                        done.set_exception(failure)
        finally:
            self._runner = None
            for _, done in self._waiting:
                done.cancel()
            self._waiting.clear()

    def _delete_all(self, paths: Sequence[str]) -> list[OSError | None]:
        failures = [self._unlink(path) for path in paths]
        synced = {}
        for path in paths:
            directory = path.rpartition("/")[0]
            if directory not in synced:
                synced[directory] = self._sync(directory)
        for directory in synced:
            self._remove_empty(directory)
        return [
            failure or synced[path.rpartition("/")[0]]
            for path, failure in zip(paths, failures, strict=True)
        ]

    def _unlink(self, path: str) -> OSError | None:
        try:
            os.unlink(f"{self._root}/{path}")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            return error
        return None

    def _sync(self, directory: str) -> OSError | None:
        try:
            fd = os.open(f"{self._root}/{directory}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return error
        try:
            os.fsync(fd)
        except OSError as error:
            return error
        finally:
            os.close(fd)
        return None

    def _remove_empty(self, directory: str) -> None:
        """Remove the directory and its parents as far as they are empty.

        A put that holds one of them open gets ENOENT at its next step and makes it again.
        """
        with contextlib.suppress(OSError):
            while directory:
                os.rmdir(f"{self._root}/{directory}")
                self._directories.forget(directory)
                directory = directory.rpartition("/")[0]
