"""A process that looks into a topic with SQL again and again: `python -m bench.read.sql_looks
DATA_DIR TOPIC`.

`{"do": "looks"}` is answered with how many looks there were; `{"do": "seen"}` ends them and is
answered with what each of them found: the end of each partition, and when the answer was here.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from bench.shared.answering import failure, next_question, take_stdout
from towpath.config.settings import Settings
from towpath.query.engine import TopicQueries

LOOK_INTERVAL_S = 0.02
"""Between an answer and the next query: somebody else needs the cores as well."""


class Looks:
    """One connection, asked until it is stopped."""

    def __init__(self, queries: TopicQueries, topic: str) -> None:
        self._queries = queries
        self._sql = f'SELECT partition, max("offset") + 1 FROM "{topic}" GROUP BY partition'
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._failure: Exception | None = None
        self._seen: list[tuple[int, dict[int, int]]] = []
        self._thread.start()

    def count(self) -> int:
        """Looks so far; raises what one failed with."""
        if self._failure is not None:
            raise self._failure
        return len(self._seen)

    def stop(self) -> list[tuple[int, dict[int, int]]]:
        """End them."""
        self._stop.set()
        self._thread.join()
        self.count()
        return self._seen

    def _look(self) -> None:
        try:
            while not self._stop.wait(LOOK_INTERVAL_S):
                answer = self._queries.run(self._sql)
                assert answer is not None
                ends = {
                    partition: end
                    for batch in answer
                    for partition, end in zip(*batch.to_pydict().values(), strict=True)
                }
                self._seen.append((time.monotonic_ns(), ends))
        except Exception as error:  # noqa: BLE001 - told by the next answer.
            self._failure = error


def main(data_dir: Path, topic: str) -> None:
    """Answer until stdin ends."""
    answer = take_stdout()
    looks = Looks(TopicQueries(Settings(data_dir=data_dir)), topic)
    answer({"ready": True})
    while (question := next_question()) is not None:
        try:
            if question["do"] == "looks":
                answer({"looks": looks.count()})
            else:
                answer({"seen": looks.stop()})
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it.
            answer(failure(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
