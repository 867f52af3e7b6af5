"""Hints to a running thermocline engine, over the unix socket of its API.

Thin: what can be said, and what is refused, only the engine knows (docs/guides/hints.md,
docs/formats/hints.schema.json). Needs nothing but Python 3.8 and its standard library.

    from thermocline_hints import Engine

    engine = Engine("thermocline-data/http.sock")
    engine.give("backup", [{"volume": "v0", "length_bytes": 1 << 30, "usage": "archival"}])
    engine.forget("backup")

Or from a shell: `python3 thermocline_hints.py SOCKET < document.json`.
"""

import http.client
import json
import socket
import sys
import urllib.parse

VERSION = 1


class Refused(Exception):
    """The engine did not take it; `status` is that of HTTP."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("thermocline", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """An engine, by the socket of its API. Each call is a connection of its own."""

    def __init__(self, path="thermocline-data/http.sock", timeout_seconds=10.0):
        self._path = path
        self._timeout_seconds = timeout_seconds

    def give(self, source, hints):
        """Gives hints, a list of dictionaries; returns how many were taken and refused, and why.

        Raises `Refused` when the document as a whole is not taken, `OSError` when nobody listens.
        """
        return self.send({"version": VERSION, "source": source, "hints": list(hints)})

    def send(self, document):
        """Sends a whole document; see `give`."""
        return self._call("POST", "/v1/hints", document)

    def list(self):
        """What is held, who said it, and what it led to."""
        return self._call("GET", "/v1/hints")

    def forget(self, source):
        """Withdraws everything that a source said. Raises `Refused` when there is no such source."""
        self._call("DELETE", "/v1/hints/" + urllib.parse.quote(source, safe=""))

    def _call(self, method, path, body=None):
        connection = _Connection(self._path, self._timeout_seconds)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        try:
            value = json.loads(answer) if answer else None
        except ValueError:
            value = answer.decode(errors="replace")
        if response.status >= 300:
            message = value.get("message", "") if isinstance(value, dict) else str(value)
            raise Refused(response.status, message)
        return value


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: thermocline_hints.py SOCKET < document.json")
    try:
        taken = Engine(sys.argv[1]).send(json.load(sys.stdin))
    except (OSError, ValueError, Refused) as error:
        sys.exit(f"error: {error}")
    print(json.dumps(taken))
    sys.exit(2 if taken["refused"] else 0)
