"""SeaweedFS in one process: S3 and an Iceberg REST catalog, on loopback ports of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.fs as fs
import requests
from tests.integration.harness.ports import free_ports
from tests.integration.harness.server_process import ServerDied, ServerProcess
from tests.integration.harness.waiting import wait_until

ACCESS_KEY = "test-key"
SECRET_KEY = "test-secret"
GUEST_ACCESS_KEY = "guest-key"
GUEST_SECRET_KEY = "guest-secret"
"""Of a user who may read the bucket `objects`, and nothing else."""
REGION = "us-east-1"
WEED = str(Path(sys.executable).parent / "weed")
START_TIMEOUT_S = 60.0
SHELL_TIMEOUT_S = 60.0
REQUEST_TIMEOUT_S = 10.0
VOLUMES = 100
"""Every bucket takes several: with the default of 8 there are soon none left."""
LISTENERS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "s3.port.iceberg",
)


class SeaweedFs:
    """A server whose S3 gateway and catalog know one user."""

    def __init__(self, directory: Path) -> None:
        first = free_ports(len(LISTENERS))
        self._ports = {name: first + number for number, name in enumerate(LISTENERS)}
        users = directory / "users.json"
        users.write_text(json.dumps(_users()))
        (directory / "data").mkdir()
        self.process = ServerProcess(
            [*self._command(directory / "data"), f"-s3.config={users}"],
            directory / "weed.log",
            {},
            [],
        )

    @property
    def s3_url(self) -> str:
        """The S3 endpoint."""
        return f"http://127.0.0.1:{self._ports['s3.port']}"

    @property
    def catalog_url(self) -> str:
        """The REST catalog."""
        return f"http://127.0.0.1:{self._ports['s3.port.iceberg']}"

    def start(self) -> None:
        """Start and wait until it can be written to."""
        self.process.spawn()
        wait_until(self._is_ready, "SeaweedFS ready", timeout_s=START_TIMEOUT_S)

    def stop(self) -> None:
        """End it; its data is of no use any more."""
        self.process.kill()

    def make_buckets(self, bucket: str, table_bucket: str) -> None:
        """One bucket for anything, and one whose keys are those of tables."""
        self._shell(f"s3.bucket.create -name {bucket}")
        self._shell(f"s3tables.bucket -create -name {table_bucket} -account admin")

    def files(self) -> fs.FileSystem:
        """The objects, by `bucket/key`."""
        return fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=self.s3_url,
            region=REGION,
        )

    def s3_properties(self) -> dict[str, str]:
        """What pyiceberg needs to read and write the objects."""
        return {
            "s3.endpoint": self.s3_url,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        }

    def s3_options(self) -> dict[str, str]:
        """What OpenDAL needs to read and write the objects."""
        return {
            "endpoint": self.s3_url,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": REGION,
        }

    def _command(self, data: Path) -> list[str]:
        return [
            WEED,
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            "-master.volumePreallocate=false",
            f"-volume.max={VOLUMES}",
            *(f"-{name}={port}" for name, port in self._ports.items()),
        ]

    def _is_ready(self) -> bool:
        if (code := self.process.exit_code()) is not None:
            raise ServerDied(f"SeaweedFS ended with {code}:\n{self.process.log_tail()}")
        try:
            config = requests.get(f"{self.catalog_url}/v1/config", timeout=REQUEST_TIMEOUT_S)
            return config.ok and "filer" in self._shell("cluster.ps")
        except requests.RequestException:
            return False

    def _shell(self, command: str) -> str:
        master = f"127.0.0.1:{self._ports['master.port']}.{self._ports['master.port.grpc']}"
        done = subprocess.run(
            [WEED, "shell", f"-master={master}"],
            input=command.encode(),
            capture_output=True,
            timeout=SHELL_TIMEOUT_S,
            check=True,
        )
        output = done.stdout.decode()
        assert "error:" not in output, output
        return output


def _users() -> object:
    admin = ["Admin", "Read", "List", "Tagging", "Write"]
    guest = ["Read:objects", "List:objects"]
    identities = [
        _user("admin", ACCESS_KEY, SECRET_KEY, admin),
        _user("guest", GUEST_ACCESS_KEY, GUEST_SECRET_KEY, guest),
    ]
    return {"identities": identities}


def _user(name: str, access_key: str, secret_key: str, actions: list[str]) -> object:
    credentials = [{"accessKey": access_key, "secretKey": secret_key}]
    return {"name": name, "credentials": credentials, "actions": actions}
