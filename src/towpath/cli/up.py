"""`towpath up`: everything on this machine with one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.settings import ConfigFile, SetFlags, load

if TYPE_CHECKING:
    from towpath.broker import Broker
    from towpath.config import Settings

HELP = """Run Towpath on this machine: one broker, or several processes with --brokers.

\b
Settings come from --config, then TOWPATH_* variables, then flags. Examples:
  towpath up
  towpath up --data-dir /var/lib/towpath --kafka-port 9192
  towpath up --brokers 3 --set num.partitions=6
  towpath up --brokers 6 --zones a,b,c
  towpath up --config towpath.yaml
"""


def up(
    config: ConfigFile = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of all data.  [default: ./towpath-data]"),
    ] = None,
    kafka_port: Annotated[
        str | None,
        typer.Option(metavar="PORT", help="Kafka port; broker i adds i.  [default: 9092]"),
    ] = None,
    http_port: Annotated[
        str | None,
        typer.Option(metavar="PORT", help="Metrics and health; broker i adds i.  [default: 9464]"),
    ] = None,
    brokers: Annotated[
        str | None, typer.Option(metavar="N", help="Number of broker processes.  [default: 1]")
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Zones, dealt out to the brokers in turn."),
    ] = None,
    assignments: SetFlags = None,
) -> int:
    """Check the settings, then run until a signal."""
    from towpath.cli import preflight

    named: dict[str, object | None] = {
        "data_dir": data_dir,
        "kafka_port": kafka_port,
        "http_port": http_port,
        "brokers": brokers,
        "zone": zones,
    }
    settings = load(config, assignments or [], named)
    preflight.check(settings, range(settings.brokers))
    flags = [f"{name}={value}" for name, value in named.items() if value is not None]
    flags += assignments or []
    if settings.brokers == 1:
        return _run_here(settings, config, flags)
    from towpath.cli import supervisor

    return supervisor.run(settings, config, flags)


def _run_here(settings: Settings, config: Path | None, flags: list[str]) -> int:
    from towpath.cli import banner, serve
    from towpath.cli.companion import Companion

    companion = Companion(settings, config, flags)

    def announce(broker: Broker) -> None:
        addresses, http = (broker.kafka_address,), broker.http_address
        tables = companion.makes_tables
        banner.show(banner.ready(settings, config, addresses, http, tables=tables))

    return serve.run(settings, 0, announce, companion=companion)
