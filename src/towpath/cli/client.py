"""Kafka clients for the commands: quiet, and with one clear line when nobody answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from towpath.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CONNECT_TIMEOUT_SECONDS = 4.0
METADATA_TIMEOUT_SECONDS = 5.0
REQUEST_TIMEOUT_SECONDS = 15.0

BootstrapFlag = Annotated[
    str,
    typer.Option(
        "--bootstrap", metavar="HOST:PORT", envvar="TOWPATH_BOOTSTRAP", help="A broker to ask."
    ),
]


def parse_bootstrap(bootstrap: str) -> list[tuple[str, int]]:
    """The addresses of `HOST:PORT[,HOST:PORT...]`."""
    addresses = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise UsageError(f"--bootstrap wants HOST:PORT, not '{part}'")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def reach(bootstrap: str) -> tuple[str, int]:
    """The first address that accepts a connection; CliError if none does.

    librdkafka would retry in silence until a time-out; a refused connection is known at once.
    """
    addresses = parse_bootstrap(bootstrap)
    reason = ""
    for address in addresses:
        timeout = CONNECT_TIMEOUT_SECONDS / len(addresses)
        try:
            with socket.create_connection(address, timeout=timeout):
                return address
        except OSError as error:
            reason = error.strerror or str(error)
    raise CliError(f"no broker answers at {bootstrap}: {reason}")


def _quiet(bootstrap: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "towpath-cli",
        "log_level": 0,
        "error_cb": _ignore,
        **extra,
    }


def _ignore(_: KafkaError) -> None:
    """Background errors are librdkafka's to retry; what fails for good is reported by its call."""


def admin_types() -> Any:
    """The client's admin package. Its names are re-exports, which type checkers do not see."""
    import confluent_kafka.admin

    return confluent_kafka.admin


def admin(bootstrap: str) -> AdminClient:
    """An admin client of a reachable cluster."""
    from confluent_kafka.admin import AdminClient

    reach(bootstrap)
    return AdminClient(_quiet(bootstrap, {}))


def producer(bootstrap: str, extra: Mapping[str, Any]) -> Producer:
    """A producer of a reachable cluster."""
    from confluent_kafka import Producer

    reach(bootstrap)
    return Producer(_quiet(bootstrap, extra))


def consumer(bootstrap: str, extra: Mapping[str, Any]) -> Consumer:
    """A consumer of a reachable cluster that belongs to no group."""
    from confluent_kafka import Consumer

    reach(bootstrap)
    alone = {"group.id": "towpath-cli", "enable.auto.commit": False}
    return Consumer(_quiet(bootstrap, {**alone, **extra}))


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turns Kafka's failures inside into one line that starts with `what`."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as failure:
        raise CliError(f"{what}: {explain(failure)}") from failure


def explain(failure: BaseException) -> str:
    """Kafka's own words for a failure, without codes and braces."""
    error = failure.args[0] if failure.args else failure
    text = getattr(error, "str", None)
    return str(text()) if callable(text) else str(error)


def result(future: Future[T], what: str) -> T:
    """The future's result; Kafka's failure becomes a CliError."""
    with explained(what):
        return future.result(timeout=REQUEST_TIMEOUT_SECONDS * 2)
