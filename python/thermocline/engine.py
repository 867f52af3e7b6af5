"""A running thermocline engine, over the unix socket of its API.

Thin: what can be said, and what is refused, only the engine knows (docs/guides/engine.md,
docs/guides/hints.md, docs/formats/hints.schema.json). Needs nothing but Python's standard library,
not even the compiled part of the package: the file works alone.

    from thermocline.engine import Engine

    engine = Engine("thermocline-data/http.sock")
    print(engine.status()["state"])
    engine.give("backup", [{"volume": "v0", "length_bytes": 1 << 30, "usage": "archival"}])
    engine.forget("backup")

Or from a shell: `python3 -m thermocline.engine SOCKET < document.json`.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

VERSION = 1

# Named here, because `Engine.list` takes the name inside the class.
_Dicts = list[dict[str, Any]]


class Refused(Exception):
    """The engine did not take it; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("thermocline", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """An engine, by the socket of its API. Each call is a connection of its own."""

    def __init__(
        self, path: str = "thermocline-data/http.sock", timeout_seconds: float = 10.0
    ) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds

    def status(self) -> dict[str, Any]:
        """The engine's state, pools and volumes, as `thermocline status --json` prints them."""
        answer: dict[str, Any] = self._call("GET", "/v1/status")
        return answer

    def volumes(self) -> _Dicts:
        """The volumes."""
        answer: _Dicts = self._call("GET", "/v1/volumes")
        return answer

    def heat(self, volume: str) -> Any:
        """How often each part of a volume is used, as the dashboard draws it."""
        return self._call("GET", f"/v1/volumes/{urllib.parse.quote(volume, safe='')}/heat")

    def policy(self) -> dict[str, Any]:
        """The placement and what it proposed last."""
        answer: dict[str, Any] = self._call("GET", "/v1/policy")
        return answer

    def record(self, seconds: float) -> bytes:
        """A recording of what clients ask of the engine during so many seconds, as a file's bytes.

        `thermocline.open` reads the file, once it is written. What the engine writes down itself,
        with `thermocline up --record`, is such a file too.
        """
        answer: bytes = self._ask("GET", f"/v1/sample?seconds={seconds:g}", None, seconds)
        return answer

    def give(self, source: str, hints: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Gives hints, a list of dictionaries; returns how many were taken and refused, and why.

        Raises `Refused` when the document as a whole is not taken, `OSError` when nobody listens.
        """
        return self.send({"version": VERSION, "source": source, "hints": list(hints)})

    def send(self, document: Any) -> dict[str, Any]:
        """Sends a whole document; see `give`."""
        answer: dict[str, Any] = self._call("POST", "/v1/hints", document)
        return answer

    def list(self) -> Any:
        """What is held, who said it, and what it led to."""
        return self._call("GET", "/v1/hints")

    def forget(self, source: str) -> None:
        """Withdraws everything that a source said. Raises `Refused` when there is no such source."""
        self._call("DELETE", "/v1/hints/" + urllib.parse.quote(source, safe=""))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._ask(method, path, body, 0.0)
        return json.loads(answer) if answer else None

    def _ask(self, method: str, path: str, body: Any, takes_seconds: float) -> bytes:
        connection = _Connection(self._path, self._timeout_seconds + takes_seconds)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise Refused(response.status, _message(answer))
        return answer


def _message(answer: bytes) -> str:
    try:
        value = json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace")
    return str(value.get("message", "")) if isinstance(value, dict) else str(value)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 -m thermocline.engine SOCKET < document.json")
    try:
        taken = Engine(sys.argv[1]).send(json.load(sys.stdin))
    except (OSError, ValueError, Refused) as error:
        sys.exit(f"error: {error}")
    print(json.dumps(taken))
    sys.exit(2 if taken["refused"] else 0)
