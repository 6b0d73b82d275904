"""A REST catalog on a loopback port, on pyiceberg's own SQL catalog, that fails on demand."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table

STATUSES: dict[type[Exception], int] = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
}
CLIENT = "client-1"
SECRET = "secret-1"


@dataclass
class Fault:
    """What happens to the next request that fits."""

    method: str
    ending: str
    """How the path ends."""
    status: int = 0
    """Answered with this; 0: the connection is closed without an answer."""
    applied: bool = False
    """Whether the request is carried out first."""
    hang: bool = False
    """No answer until the server ends."""
    times: int = 1


@dataclass
class RestServer:
    """What the handler shares."""

    catalog: Catalog
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    needs_token: bool = False
    tokens: list[str] = field(default_factory=list)
    token_requests: list[dict[str, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    uri: str = ""

    def count(self, method: str, ending: str) -> int:
        """How many such requests came."""
        return sum(1 for made, path in self.requests if made == method and path.endswith(ending))

    def take_fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.method == method and path.endswith(fault.ending):
                fault.times -= 1
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    state: RestServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.state.requests.append((self.command, path))
        fault = self.state.take_fault(self.command, path)
        if fault is None:
            self._answer(*self._carry_out(path, body))
            return
        if fault.applied:
            self._carry_out(path, body)
        if fault.hang:
            self.state.ended.wait()
        if fault.status:
            self._answer(fault.status, _error(fault.status, "fault"))
        self.close_connection = True

    def _answer(self, status: int, value: Any) -> None:
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _carry_out(self, path: str, body: bytes) -> tuple[int, Any]:
        if path.endswith("/oauth/tokens"):
            return self._token(body)
        if self.state.needs_token and not self._is_authorized():
            return 401, _error(401, "no valid token")
        try:
            with self.state.lock:
                return self._dispatch(path.removeprefix("/v1").split("/")[1:], body)
        except tuple(STATUSES) as error:
            return STATUSES[type(error)], _error(STATUSES[type(error)], str(error))

    def _token(self, body: bytes) -> tuple[int, Any]:
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.state.token_requests.append(fields)
        basic = f"Basic {b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"
        known = (fields.get("client_id"), fields.get("client_secret")) == (CLIENT, SECRET)
        if not known and self.headers.get("Authorization") != basic:
            return 401, {"error": "invalid_client"}
        self.state.tokens.append(f"token-{len(self.state.token_requests)}")
        answer = {"access_token": self.state.tokens[-1], "token_type": "bearer", "expires_in": 3600}
        return 200, answer

    def _is_authorized(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return bool(self.state.tokens) and given == self.state.tokens[-1]

    def _dispatch(self, parts: list[str], body: bytes) -> tuple[int, Any]:
        catalog = self.state.catalog
        match self.command, parts:
            case "GET", ["config"]:
                return 200, {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces"]:
                catalog.create_namespace(tuple(json.loads(body)["namespace"]))
                return 200, json.loads(body)
            case (("GET" | "HEAD"), ["namespaces", name]):
                return 200, {"namespace": [name], **catalog.load_namespace_properties(name)}
            case "GET", ["namespaces", name, "tables"]:
                found = catalog.list_tables(name)
                listed = [{"namespace": list(one[:-1]), "name": one[-1]} for one in found]
                return 200, {"identifiers": listed}
            case "POST", ["namespaces", name, "tables"]:
                return 200, _loaded(self._create(name, body))
            case "GET", ["namespaces", name, "tables", table]:
                return 200, _loaded(catalog.load_table((name, table)))
            case "POST", ["namespaces", name, "tables", table]:
                return 200, self._commit((name, table), body)
            case "DELETE", ["namespaces", name, "tables", table]:
                catalog.drop_table((name, table))
                return 204, None
            case "POST", ["tables", "rename"]:
                asked = json.loads(body)
                source, target = asked["source"], asked["destination"]
                catalog.rename_table(
                    (*source["namespace"], source["name"]), (*target["namespace"], target["name"])
                )
                return 204, None
        return 404, _error(404, f"{self.command} {parts}")

    def _create(self, namespace: str, body: bytes) -> Table:
        asked = CreateTableRequest.model_validate_json(body)
        return self.state.catalog.create_table(
            (namespace, asked.name),
            asked.table_schema,
            asked.location,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            properties=asked.properties,
        )

    def _commit(self, identifier: tuple[str, str], body: bytes) -> Any:
        asked = CommitTableRequest.model_validate_json(body)
        table = self.state.catalog.load_table(identifier)
        done = self.state.catalog.commit_table(table, asked.requirements, asked.updates)
        return json.loads(done.model_dump_json(by_alias=True))


def _loaded(table: Table) -> Any:
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _error(status: int, message: str) -> Any:
    return {"error": {"message": message, "type": "Error", "code": status}}


@contextmanager
def rest_server(directory: Path) -> Iterator[RestServer]:
    """A server with an empty catalog; ends with the block."""
    directory.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("behind", uri=f"sqlite:///{directory}/behind.sqlite")
    state = RestServer(catalog)
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.uri = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
        catalog.close()
