"""`towpath broker`: one broker process, for a supervisor of one's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.settings import ConfigFile, SetFlags, load

if TYPE_CHECKING:
    from towpath.broker import Broker

HELP = """Run one broker process, without a banner.

\b
Examples:
  towpath broker --config /etc/towpath.yaml
  towpath broker --set node.id=2 --set kafka.port=9093 --set http.port=9465
"""


def broker(
    config: ConfigFile = None,
    assignments: SetFlags = None,
    index: Annotated[int, typer.Option(hidden=True, min=0, max=63)] = 0,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Run broker `index` until a signal; a supervised one tells when it is ready on stdout."""
    from towpath.cli import preflight, serve

    # A supervisor has shown the warnings already.
    settings = load(config, assignments or [], {}, warn=not supervised)
    preflight.check(settings, range(index, index + 1))

    def announce(started: Broker) -> None:
        kafka, http = started.kafka_address, started.http_address
        if supervised:
            print(json.dumps({"ready": True, "kafka": kafka, "http": http}), flush=True)
            return
        import structlog

        structlog.get_logger().info(
            "broker ready",
            broker_id=settings.broker_id(index),
            kafka=f"{kafka[0]}:{kafka[1]}",
            http=f"{http[0]}:{http[1]}",
            data_dir=str(settings.data_dir),
        )

    return serve.run(settings, index, announce, supervised=supervised)
