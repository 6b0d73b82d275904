"""Coverage-guided fuzzing by the hour: `python -m tests.faults.fuzz.atheris_run --minutes 60`.

It needs atheris, which is no dependency of the project: install it into the environment first.
Each target (`frames` is a whole broker, the others are readers) runs in a process of its own for an
equal share of the time. Inputs that fail are written to `--findings`, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FRAMES = "frames"
NAMES = (FRAMES, "codec", "batch", "sealed-batch", "decompress", "wal")
INPUT_BYTES_MAX = 65_536
SECONDS_PER_INPUT_MAX = 20
MEMORY_MIB_MAX = 2048


def main() -> int:
    """Run every target, or the one that the parent names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--target", choices=NAMES)
    asked = parser.parse_args()
    try:
        import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    if asked.target is not None:
        return _fuzz(atheris, asked.target, asked.minutes, asked.findings)
    share = asked.minutes / len(NAMES)
    failed = [name for name in NAMES if _run_apart(name, share, asked.findings)]
    print(f"failed: {', '.join(failed)}" if failed else "no target failed")
    return 1 if failed else 0


def _run_apart(name: str, minutes: float, findings: Path) -> int:
    print(f"== {name}, {minutes:.1f} minutes", flush=True)
    command = [sys.executable, "-m", "tests.faults.fuzz.atheris_run", "--target", name]
    command += ["--minutes", str(minutes), "--findings", str(findings)]
    return subprocess.run(command, check=False).returncode


def _fuzz(atheris: Any, name: str, minutes: float, findings: Path) -> int:
    # Only what is imported here is followed; instrumenting the libraries too takes minutes.
    with atheris.instrument_imports(include=["towpath"]):
        from tests.faults.fuzz.corpus import corpus
        from tests.faults.fuzz.seeds import seeds
        from tests.faults.fuzz.targets import TARGETS

        target = _frames_target() if name == FRAMES else TARGETS[name]
    directory = findings / name
    starts = directory / "corpus"
    starts.mkdir(parents=True, exist_ok=True)
    valid = [seed.frame for seed in seeds()] if name == FRAMES else corpus()[name]
    for number, data in enumerate(valid):
        (starts / f"seed-{number}").write_bytes(data)
    flags = [
        sys.argv[0],
        str(starts),
        f"-max_total_time={int(minutes * 60)}",
        f"-artifact_prefix={directory}/",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={SECONDS_PER_INPUT_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
    ]
    atheris.Setup(flags, target)
    atheris.Fuzz()
    return 0


def _frames_target() -> Callable[[bytes], None]:
    from tests.faults.fuzz.broker_rig import FuzzBroker

    runner = asyncio.Runner()
    broker = FuzzBroker()

    def send(data: bytes) -> None:
        runner.run(broker.send(data))

    return send


if __name__ == "__main__":
    sys.exit(main())
