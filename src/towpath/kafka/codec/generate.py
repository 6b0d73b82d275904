"""Writes the modules under `messages/` and `error_codes.py` from the schemas of the library kio.

Run it after changing `SERVED` or the version of kio: `python -m towpath.kafka.codec.generate`.
kio has one class per version; here the versions are merged into one class whose fields carry
their version ranges, so that the broker need not import kio (seconds) and handlers need not care
about versions. Durations and instants of kio become integers in milliseconds (`…_ms`, as in
Kafka's own schemas), error codes plain integers, and uuids never None.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from towpath.kafka.codec.generate_merge import merge_api
from towpath.kafka.codec.generate_source import error_codes_source, module_source

HERE = Path(__file__).parent

SERVED: dict[str, tuple[int, int]] = {
    "produce": (3, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 10),
    "metadata": (0, 13),
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10),
    "find_coordinator": (0, 6),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "sasl_handshake": (0, 1),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "add_partitions_to_txn": (0, 5),
    "add_offsets_to_txn": (0, 4),
    "end_txn": (0, 5),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "describe_log_dirs": (1, 4),
    "sasl_authenticate": (0, 2),
    "create_partitions": (0, 3),
    "delete_groups": (0, 2),
    "incremental_alter_configs": (0, 1),
    "offset_delete": (0, 0),
    "describe_cluster": (0, 2),
    "list_transactions": (0, 2),
    "consumer_group_heartbeat": (0, 1),
    "consumer_group_describe": (0, 1),
    "list_config_resources": (0, 1),
    "describe_topic_partitions": (0, 0),
}
"""The APIs with message classes, and the versions that Apache Kafka 4.1 serves as stable, and
v10 of OffsetCommit and OffsetFetch (topic ids), which it serves when unstable ones are enabled."""


def generate() -> dict[Path, str]:
    """The text of every generated file, by its path."""
    files = {HERE / "error_codes.py": error_codes_source(_kio_error_codes())}
    for name, versions in SERVED.items():
        structs = merge_api(name, versions)
        files[HERE / "messages" / f"{name}.py"] = module_source(name, structs)
    files[HERE / "messages" / "__init__.py"] = (
        '"""Generated message classes, one module per API. See `codec/generate.py`."""\n'
    )
    return files


def _kio_error_codes() -> list[tuple[str, int, bool]]:
    errors = importlib.import_module("kio.schema.errors")
    return [(code.name.upper(), int(code), code.retriable) for code in errors.ErrorCode]


def main() -> None:
    """Write every file."""
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
