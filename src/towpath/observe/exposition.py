"""Merges the metrics of several brokers into one Prometheus text, each sample with its broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

UP = "towpath_broker_up"


def merge(texts: Mapping[int, str | None]) -> str:
    """One exposition of every broker's text; None stands for a broker that did not answer.

    Lines of one metric stay together, as the format wants, in the order of their first appearance.
    """
    families: dict[str, list[str]] = {}
    headers: dict[str, list[str]] = {}
    for broker_id, text in texts.items():
        for family, line in _lines(text or ""):
            if line.startswith("#"):
                known = headers.setdefault(family, [])
                if line not in known:
                    known.append(line)
            else:
                families.setdefault(family, []).append(_labelled(line, broker_id))
    merged = _up(texts)
    for family, header in headers.items():
        merged += [*header, *families.get(family, [])]
    return "\n".join(merged) + "\n"


def _up(texts: Mapping[int, str | None]) -> list[str]:
    samples = [f'{UP}{{broker="{b}"}} {0.0 if t is None else 1.0}' for b, t in texts.items()]
    return [f"# HELP {UP} Whether the broker's metrics are in here", f"# TYPE {UP} gauge", *samples]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Every line with the metric whose HELP or TYPE line came last."""
    family = ""
    # Names of groups may hold any other separator of lines.
    for line in text.split("\n"):
        if line.startswith(("# HELP ", "# TYPE ")):
            family = line.split(" ", 3)[2]
        if line and (not line.startswith("#") or line.startswith(("# HELP ", "# TYPE "))):
            yield family, line


def _labelled(sample: str, broker_id: int) -> str:
    """The sample line with a `broker` label put first."""
    name_end = len(sample)
    for stop in ("{", " "):
        found = sample.find(stop)
        if found != -1:
            name_end = min(name_end, found)
    name, rest = sample[:name_end], sample[name_end:]
    rest = rest.removeprefix("{}")
    if rest.startswith("{"):
        return f'{name}{{broker="{broker_id}",{rest[1:]}'
    return f'{name}{{broker="{broker_id}"}}{rest}'
