"""The DescribeLogDirs request and the reader of its answer, byte for byte."""

from __future__ import annotations

import socket
import threading

import pytest

from towpath.cli.log_dirs import LogDirsError, PartitionUsage, ask, decode_answer, encode_request

REQUEST = bytes.fromhex(
    "00000025"  # length
    "0023 0004 00000001"  # DescribeLogDirs v4, correlation id
    "000b 746f77706174682d636c69 00"  # client id, no tags
    "02 03 6f6b 03 00000000 00000007 00"  # one topic "ok", partitions 0 and 7
    "00"
)

PLAIN = "00000002 0000000000000009 0000000000000000 00 00"
"""Partition 2 of 9 bytes, as Apache Kafka answers."""

TAGGED = (
    "00000000 0000000000000400 0000000000000000 00"
    " 02 904e 08 0000000000000003 914e 08 0000018bcfe56800"
)
"""Partition 0 of 1024 bytes in 3 objects, last written at 1700000000000."""


def answer(*partitions: str, error: str = "0000") -> bytes:
    return bytes.fromhex(
        f"00000001 00 00000000 {error}"
        f"02 0000 03 2f64 02 03 6f6b {len(partitions) + 1:02x} {' '.join(partitions)} 00"
        "ffffffffffffffff ffffffffffffffff 00 00"
    )


def test_request() -> None:
    assert encode_request({"ok": [0, 7]}) == REQUEST


def test_answer_with_and_without_tags() -> None:
    assert decode_answer(answer(TAGGED, PLAIN)) == {
        ("ok", 0): PartitionUsage(1024, 3, 1_700_000_000_000),
        ("ok", 2): PartitionUsage(9, None, None),
    }


def test_future_replicas_do_not_count() -> None:
    future = "00000002 0000000000000009 0000000000000000 01 00"
    assert decode_answer(answer(future)) == {}


def test_error_code() -> None:
    with pytest.raises(LogDirsError, match="error code 35"):
        decode_answer(answer(error="0023"))


def test_every_cut_of_an_answer_is_noticed() -> None:
    whole = answer(TAGGED, PLAIN)
    for length in range(len(whole) - 1):
        with pytest.raises(LogDirsError):
            decode_answer(whole[:length])


def test_another_requests_answer() -> None:
    with pytest.raises(LogDirsError, match="another request"):
        decode_answer(b"\x00\x00\x00\x09" + answer(PLAIN)[4:])


def test_endless_numbers_are_refused() -> None:
    with pytest.raises(LogDirsError, match="too long"):
        decode_answer(b"\x00\x00\x00\x01" + b"\xff" * 20)


@pytest.mark.parametrize("reply", [b"", b"\x00\x00\x00\x05ab", b"\x7f\xff\xff\xff"])
def test_brokers_that_do_not_know_the_request(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(LogDirsError):
            ask(listener.getsockname(), {"ok": [0]})
        thread.join()
