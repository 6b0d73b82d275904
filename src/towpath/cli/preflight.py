"""Checks that can be made before anything heavy is loaded: the data directory and the ports."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from typing import TYPE_CHECKING

from towpath.cli.errors import CliError

if TYPE_CHECKING:
    from towpath.config import Settings


def check(settings: Settings, indexes: range) -> None:
    """Raise CliError unless the brokers of `indexes` can use their directory and ports."""
    check_data_dir(settings)
    for index in indexes:
        check_port(settings.kafka_host, settings.broker_kafka_port(index), "--kafka-port")
        check_port(settings.http_host, settings.broker_http_port(index), "--http-port")


def check_data_dir(settings: Settings) -> None:
    """Create the data directory and prove that files can be written in it."""
    directory = settings.data_dir
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CliError(f"cannot write to the data directory {directory}: {reason}") from error


def check_port(host: str, port: int, flag: str) -> None:
    """Raise CliError if somebody else listens on the port, or the address is not ours."""
    if port == 0:
        return
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise CliError(explain_bind(error, host, port, flag)) from error


def explain_bind(error: OSError, host: str, port: int, flag: str) -> str:
    """One line about a port that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another one with {flag}"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"
