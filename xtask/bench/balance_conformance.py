"""What a proxy makes of messages at the edges of HTTP/1.1 and HTTP/2, beside HAProxy and nginx.

Each message goes, byte for byte, to each proxy, before a server of raw bytes that writes down what it was sent. A cell tells the status of
each answer, how many requests the server saw (x2 when it was not one), `…` behind an answer that was cut off, and `open` when the proxy
neither answered nor closed within a second. There is no right or wrong here, but two columns that millions use: the last line counts where
ours is alone. HAProxy and nginx run with their defaults, and kept connections to servers. balance_frames.py has the messages of HTTP/2.
"""

import re
import socket
import threading
import time

import balance_frames
import balance_speed
from balance_processes import Programs, free_ports, machine, need

HOST = "Host: a\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
PATIENCE_S = 1.0


def post(fields, body="", path="/a"):
    return f"POST {path} HTTP/1.1\r\n{HOST}{fields}\r\n{body}"


def get(path="/a", fields="", version="HTTP/1.1", host=HOST):
    return f"GET {path} {version}\r\n{host}{fields}\r\n"


def many(count):
    return "".join(f"X-{at}: 1\r\n" for at in range(count))


REQUESTS = [
    ("plain", get()),
    ("a body with a length", post("Content-Length: 5\r\n", "hello")),
    ("two equal lengths", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello")),
    ("two lengths in one field", post("Content-Length: 5, 5\r\n", "hello")),
    ("two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!")),
    ("length +5", post("Content-Length: +5\r\n", "hello")),
    ("length -5", post("Content-Length: -5\r\n", "hello")),
    ("length 0x5", post("Content-Length: 0x5\r\n", "hello")),
    ("length above 64 bits", post("Content-Length: 18446744073709551621\r\n", "hello")),
    ("length before a space and colon", post("Content-Length : 5\r\n", "hello")),
    ("length and chunks", post(f"Content-Length: 5\r\n{CHUNKED}", "0\r\n\r\n")),
    ("chunks", post(CHUNKED, "5\r\nhello\r\n0\r\n\r\n")),
    ("chunked twice", post(CHUNKED * 2, "0\r\n\r\n")),
    ("chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n")),
    ("gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n")),
    ("identity", post("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", "hello")),
    ("xchunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
    ("vertical tab before chunked", post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n")),
    ("chunked in HTTP/1.0", f"POST /a HTTP/1.0\r\n{HOST}{CHUNKED}\r\n0\r\n\r\n"),
    ("a GET with chunks", get(fields=CHUNKED) + "5\r\nhello\r\n0\r\n\r\n"),
    ("a chunk's extension", post(CHUNKED, "5;a=b\r\nhello\r\n0\r\n\r\n")),
    ("line feed in an extension", post(CHUNKED, "5;\nhello\r\n0\r\n\r\n")),
    ("a chunk's length with LF alone", post(CHUNKED, "5\nhello\n0\n\n")),
    ("a chunk without its CRLF", post(CHUNKED, "5\r\nhelloXX0\r\n\r\n")),
    ("a chunk of length 0x5", post(CHUNKED, "0x5\r\nhello\r\n0\r\n\r\n")),
    ("a chunk's length above 64 bits", post(CHUNKED, "10000000000000005\r\nhello\r\n0\r\n\r\n")),
    ("a chunk of no length", post(CHUNKED, "zz\r\nhello\r\n0\r\n\r\n")),
    ("trailers", post(f"{CHUNKED}Trailer: X-T\r\n", "5\r\nhello\r\n0\r\nX-T: v\r\n\r\n")),
    ("a host in trailers", post(CHUNKED, "5\r\nhello\r\n0\r\nHost: evil\r\n\r\n")),
    ("no host", get(host="")),
    ("two hosts", get(fields="Host: b\r\n")),
    ("an empty host", get(host="Host:\r\n")),
    ("a host with a space", get(host="Host: a b\r\n")),
    ("a whole URI", get("http://b.example/p?q")),
    ("a whole URI with a user", get("http://u:p@b.example/p")),
    ("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    ("an unknown method", "BREW /a HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a method with {", "G{T /a HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a space in the path", get("/a b")),
    ("a control character in the path", get("/a\x01b")),
    ("bytes above 127 in the path", get("/\xc3\xa4")),
    ('"<> in the path', get('/a"<>')),
    ('"<> in the query', get('/a?b="<>')),
    ("a fragment", get("/a#b")),
    ("a path without a slash", get("a")),
    ("HTTP/1.0 without a host", get(version="HTTP/1.0", host="")),
    ("HTTP/1.2", get(version="HTTP/1.2")),
    ("HTTP/0.9", "GET /a\r\n"),
    ("lines that end in LF", "GET /a HTTP/1.1\nHost: a\n\n"),
    ("a CR inside a field", get(fields="X: a\rY: b\r\n")),
    ("a NUL inside a field", get(fields="X: a\0b\r\n")),
    ("a folded field", get(fields="X: a\r\n b\r\n")),
    ("a field without a colon", get(fields="foo\r\n")),
    ("a field without a name", get(fields=": x\r\n")),
    ("empty lines in front", "\r\n\r\n" + get()),
    ("a field of 60 kB", get(fields=f"X: {'a' * 60000}\r\n")),
    ("a path of 40 kB", get("/" + "a" * 40000)),
    ("99 fields", get(fields=many(98))),
    ("150 fields", get(fields=many(149))),
    ("three requests at once", get("/1") + get("/2") + get("/3")),
    ("expects 100", post("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello")),
    ("expects something else", post("Expect: foo\r\nContent-Length: 5\r\n", "hello")),
    ("upgrade to h2c", get(fields="Connection: Upgrade\r\nUpgrade: h2c\r\n")),
]

# What the server answers at which path.
ANSWERS = {
    "length-and-chunks": f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{CHUNKED}\r\n5\r\nhello\r\n0\r\n\r\n",
    "longer-length-and-chunks": f"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{CHUNKED}\r\n2\r\nok\r\n0\r\n\r\n",
    "two-lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
    "equal-lengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "short": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok<close>",
    "bad-chunk": f"HTTP/1.1 200 OK\r\n{CHUNKED}\r\nzz\r\nok\r\n0\r\n\r\n<close>",
    "gzip-chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "until-close": "HTTP/1.1 200 OK\r\n\r\nok<close>",
    "http-1.0": "HTTP/1.0 200 OK\r\n\r\nok<close>",
    "early-hints": "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "trailers": f"HTTP/1.1 200 OK\r\n{CHUNKED}Trailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: v\r\n\r\n",
    "204-with-a-body": "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
    "304-with-a-length": "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
    "101-unasked": "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "lines-of-lf": "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "folded": "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "garbage": "SSH-2.0-x\r\n<close>",
    "nothing": "<close>",
    "150-fields": f"HTTP/1.1 200 OK\r\n{many(149)}Content-Length: 2\r\n\r\nok",
    "a-field-of-60-kB": f"HTTP/1.1 200 OK\r\nX: {'a' * 60000}\r\nContent-Length: 2\r\n\r\nok",
}
WANTS = "TE: trailers\r\nConnection: TE\r\n"


class Server:
    """Answers by path, and keeps what it was sent."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.heads = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        reader = connection.makefile("rb")
        try:
            while line := reader.readline():
                head = [line]
                while head[-1].strip():
                    head.append(reader.readline())
                text = b"".join(head).decode("latin1")
                self.heads.append(text)
                if length := re.search(r"(?im)^content-length: *(\d+)", text):
                    reader.read(int(length[1]))
                elif re.search(r"(?im)^transfer-encoding:", text):
                    while size := int(reader.readline().split(b";")[0], 16):
                        reader.read(size + 2)
                    while reader.readline().strip():
                        pass
                path = text.split(" ")[1].lstrip("/")
                answer = ANSWERS.get(path, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                connection.sendall(answer.replace("<close>", "").encode("latin1"))
                if answer.endswith("<close>"):
                    break
        except (OSError, ValueError):
            pass
        connection.close()


def ask(port, message):
    """(Bytes that came, whether the proxy closed.)"""
    got = b""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(PATIENCE_S)
        try:
            client.sendall(message.encode("latin1"))
        except OSError:
            pass
        while True:
            try:
                more = client.recv(65536)
            except TimeoutError:
                return got, False
            except OSError:
                return got, True
            if not more:
                return got, True
            got += more


def told(got, closed, seen):
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3})", got)
    if not statuses:
        return "closed" if closed else "open"
    cell = " ".join(status.decode() for status in statuses)
    _, _, body = got.rpartition(b"\r\n\r\n" if b"\r\n0\r\n\r\n" not in got else b"\0")
    if b" 200 " in got and not (b"ok" in body or b"hello" in body):
        cell += "…"
    return cell if seen == 1 else f"{cell} x{seen}"


def row(name, message, proxies):
    cells = []
    for port, server in proxies:
        before = len(server.heads)
        got, closed = ask(port, message)
        time.sleep(0.02)
        cells.append(told(got, closed, len(server.heads) - before))
    alone = cells[0] not in cells[1:]
    return [name, *cells, "alone" if alone else ""]


def proxies(programs, args, name, http2):
    """A server behind each proxy: [(port, server)]."""
    ports, servers = free_ports(3), [Server() for _ in range(3)]
    core = args.proxy_cores
    programs.balancer(args.binary, name, ports[0], [servers[0].port], "[outliers]\nconsecutive = 0\n", cores=core)
    balance_speed.haproxy(programs, ports[1], [servers[1].port], core, protocol=" proto h2" * http2)
    balance_speed.nginx(programs, ports[2], [servers[2].port], core, " http2" * http2)
    return list(zip(ports, servers))


def table(rows):
    alone = sum(cells[-1] == "alone" for cells in rows)
    text = "| message | thermocline | HAProxy | nginx | |\n|---|---|---|---|---|\n"
    text += "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    return text + f"\nOurs differs from both in {alone} of {len(rows)} rows.\n"


def run(args, folder):
    need("haproxy", "nginx")
    with Programs(folder) as programs:
        these = proxies(programs, args, "ours", http2=False)
        rows = [row(name, message, these) for name, message in REQUESTS]
        rows += [row(f"answer: {path.replace('-', ' ')}", get(f"/{path}", WANTS), these) for path in ANSWERS]
    with Programs(folder) as programs:
        frames = list(balance_frames.rows(proxies(programs, args, "ours2", http2=True)))
    bad = [sum(word in cells[at] for cells in frames for word in (" in a request", " lost")) for at in (1, 2, 3)]
    text = (f"{machine()}\n\n## HTTP/1.1\n\n{table(rows)}\n## HTTP/2 in front, frame by frame\n\n{table(frames)}"
            "Requests out of another's bytes, and connections that were not served afterwards: "
            f"thermocline {bad[0]}, HAProxy {bad[1]}, nginx {bad[2]}.\n")
    return text, {"http1": rows, "http2": frames}
