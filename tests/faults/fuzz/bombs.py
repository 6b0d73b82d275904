"""Decompression bombs, and the child process that must survive them within its memory.

`python -m tests.faults.fuzz.bombs <directory> <output_max_bytes> <memory_max_bytes>` limits its own
address space, then validates each file of the directory as a produced batch.
"""

from __future__ import annotations

import resource
import struct
import sys
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import zstandard
from tests.faults.fuzz.targets import NOW_MS, rules, sealed

from towpath.errors import BatchError, BatchTooLarge
from towpath.records import compression
from towpath.records.batch import HEADER
from towpath.records.validate import is_large, validate_produce

STEP_BYTES = 1 << 20


def bombs(size_bytes: int) -> dict[str, bytes]:
    """Small batches whose records claim to be, and are, `size_bytes` of zeros."""
    return {
        "gzip": _batch(compression.GZIP, _gzip(size_bytes)),
        "snappy-raw": _batch(
            compression.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(size_bytes)))
        ),
        "snappy-xerial": _batch(compression.SNAPPY, compression.compress(2, bytes(size_bytes))),
        "lz4": _batch(compression.LZ4, _lz4(size_bytes)),
        "zstd": _batch(compression.ZSTD, _zstd(size_bytes, sized=False)),
        "zstd-sized": _batch(compression.ZSTD, _zstd(size_bytes, sized=True)),
        "snappy-lie": _batch(compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        "zstd-lie": _batch(compression.ZSTD, _zstd_lie()),
    }


def _batch(codec: int, payload: bytes) -> bytes:
    header = HEADER.pack(0, 0, -1, 2, 0, codec, 0, NOW_MS, NOW_MS, -1, -1, -1, 1)
    return sealed(header + payload)


def _gzip(size_bytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(bytes(STEP_BYTES)) for _ in range(size_bytes // STEP_BYTES)]
    return b"".join(parts) + packer.flush()


def _lz4(size_bytes: int) -> bytes:
    with lz4.frame.LZ4FrameCompressor(block_linked=False) as packer:
        parts = [packer.begin()]
        parts += [packer.compress(bytes(STEP_BYTES)) for _ in range(size_bytes // STEP_BYTES)]
        parts.append(packer.flush())
        return b"".join(parts)


def _zstd(size_bytes: int, *, sized: bool) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj(size=size_bytes if sized else -1)
    parts = [packer.compress(bytes(STEP_BYTES)) for _ in range(size_bytes // STEP_BYTES)]
    return b"".join(parts) + packer.flush()


def _zstd_lie() -> bytes:
    """A frame that claims 2**62 bytes and has one byte."""
    return struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 62) + b"\x09\0\0" + b"x"


def main() -> int:
    """Print what became of each file; the exit code is 1 if one was not refused."""
    directory, output_max_bytes, memory_max_bytes = sys.argv[1:]
    allowed = rules(int(output_max_bytes), batch_max_bytes=1 << 30)
    files = {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())}
    address_space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = address_space + int(memory_max_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    failed = 0
    for name, data in files.items():
        is_large(data)
        try:
            validate_produce(data, allowed)
            outcome = "accepted"
            failed = 1
        except BatchTooLarge:
            outcome = "too large"
        except BatchError as refusal:
            outcome = f"refused: {refusal}"
        print(f"{name}: {outcome}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
