"""Compares the books of producers and consumers; every difference becomes one line."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from towpath.soak.ledger import Read, Written
from towpath.soak.record import SUM_MASK

READ_FIELDS = [each.name for each in fields(Read)]

Books = dict[tuple[int, int], Written]
"""What was written, by producer and partition."""


def books_of(finals: list[dict[str, Any]]) -> Books:
    """The books from the producers' last messages."""
    return {
        (final["producer"], int(partition)): Written.from_dict(written)
        for final in finals
        for partition, written in final["written"].items()
    }


def failed_of(books: Books) -> dict[tuple[int, int], set[int]]:
    """The sequences without acknowledgement."""
    return {key: set(written.failed) for key, written in books.items() if written.failed}


def read_of(final: dict[str, Any]) -> dict[tuple[int, int], Read]:
    """What one pass has read, by producer and partition."""
    return {
        (row["producer"], row["partition"]): Read(**{name: row[name] for name in READ_FIELDS})
        for row in final["read"]
    }


def reconcile(
    books: Books, ends: dict[int, int], verified: dict[str, Any], passes: dict[str, dict[str, Any]]
) -> list[str]:
    """What does not add up.

    `verified` is the pass made after everything was written, with the unacknowledged sequences
    known; the other passes must have read exactly what it has.
    """
    problems = _against_books(books, read_of(verified))
    for name, final in {"verification": verified, **passes}.items():
        problems += [f"{name}: {problem}" for problem in final["problems"]]
        unlisted = final["problem_count"] - len(final["problems"])
        if unlisted > 0:
            problems.append(f"{name}: {unlisted} more problems")
        problems += _against_ends(name, ends, final)
    for name, final in passes.items():
        problems += _against_pass(name, verified, final)
    return problems


def _against_books(books: Books, read: dict[tuple[int, int], Read]) -> list[str]:
    problems = []
    for producer, partition in sorted(books.keys() | read.keys()):
        written = books.get((producer, partition), Written())
        seen = read.get((producer, partition), Read())
        where = f"producer {producer} partition {partition}"
        settled = written.acknowledged + len(written.failed)
        if settled != written.next_sequence:
            problems.append(f"{where}: {written.next_sequence} sent, {settled} settled")
        if seen.count != written.acknowledged:
            problems.append(f"{where}: {written.acknowledged} acknowledged, {seen.count} read")
        elif seen.sum != written.sum:
            problems.append(f"{where}: records are not at the offsets that were acknowledged")
    return problems


def _against_ends(name: str, ends: dict[int, int], final: dict[str, Any]) -> list[str]:
    reached = {int(partition): end for partition, end in final["ends"].items()}
    return [
        f"{name}: partition {partition} was read up to {reached.get(partition, 0)} of {end}"
        for partition, end in sorted(ends.items())
        if reached.get(partition, 0) != end
    ]


def _against_pass(name: str, verified: dict[str, Any], final: dict[str, Any]) -> list[str]:
    """The pass did not know which records are doubtful, so it is compared as a whole."""
    mine, theirs = read_of(final), read_of(verified)
    problems = []
    for producer, partition in sorted(mine.keys() | theirs.keys()):
        a = mine.get((producer, partition), Read())
        b = theirs.get((producer, partition), Read())
        where = f"{name}: producer {producer} partition {partition}"
        counts = a.count + a.doubtful, b.count + b.doubtful
        if counts[0] != counts[1]:
            problems.append(f"{where}: {counts[0]} records, the verification has {counts[1]}")
        elif (a.sum + a.doubtful_sum - b.sum - b.doubtful_sum) & SUM_MASK:
            problems.append(f"{where}: other records than the verification has")
    return problems
