"""HTTP/2 in front, frame by frame: what a proxy makes of heads and frames that no library would send.

Each message is a connection of its own, in clear with prior knowledge: preface, SETTINGS, and the frames of the row. Behind each proxy stands
a server of HTTP/1.1 that writes down what it was sent. A cell tells what became of the connection's streams, in the order of what came: a
status; `reset N` and `goaway N` with the error code's name; `closed` and `open` where nothing came, and the proxy closed or did not within a second. `x0`, `x2`, … is
how many requests the server saw where it was not one. `in a request` says that bytes that were hidden in a request became a head of their own
at the server (smuggling); `lost` that a new connection was not served afterwards. There is no right or wrong here but these two; the last line
counts them, and where ours is alone.
"""

import re
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
PATIENCE_S = 1.0
ERRORS = ["no error", "protocol", "internal", "flow control", "settings timeout", "stream closed", "frame size", "refused", "cancel",
          "compression", "connect", "calm", "security", "http/1.1"]
# HPACK's code of digits (RFC 7541, Appendix B): bits, and how many.
DIGITS = {**{(at, 5): str(at) for at in range(3)}, **{(0x19 + at, 6): str(3 + at) for at in range(7)}}
STATUSES = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}


def frame(kind, flags, stream, payload=b"", length=None):
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def number(value, prefix, first=0):
    """An integer of HPACK (RFC 7541 §5.1)."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([first | value])
    out = [first | most]
    value -= most
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


def literals(fields):
    """Fields as literals that are kept in no table."""
    out = b""
    for name, value in fields:
        name, value = name.encode("latin1"), value.encode("latin1")
        out += b"\0" + number(len(name), 7) + name + number(len(value), 7) + value
    return out


def head(method="GET", path="/a", scheme="http", authority="a", more=()):
    pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [(name, value) for name, value in pseudo if value is not None] + list(more)


def ask(fields, stream=1, end=True):
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, literals(fields))


def post(more=(), body=b"hello", **parts):
    return ask(head("POST", more=more, **parts), end=False) + frame(DATA, END_STREAM, 1, body)


def split(fields, pieces, end=True):
    """A head in one HEADERS and CONTINUATIONs."""
    text = literals(fields)
    step = -(-len(text) // pieces)
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    out = b""
    for at, part in enumerate(parts):
        last = END_HEADERS if at + 1 == len(parts) else 0
        out += frame(CONTINUATION if at else HEADERS, last | (END_STREAM if end and not at else 0), 1, part)
    return out


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def raw(payload):
    return frame(HEADERS, END_HEADERS | END_STREAM, 1, payload)


PLAIN = ask(head())
OPEN = ask(head("POST"), end=False)
HIDDEN = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
MESSAGES = [
    ("plain", PLAIN),
    ("a body", post()),
    # Heads.
    ("a field's name in capitals", ask(head(more=[("X-A", "1")]))),
    ("a field's name with a space", ask(head(more=[("x a", "1")]))),
    ("a field's name with a colon", ask(head(more=[("x:a", "1")]))),
    ("a field's name with CR LF", ask(head(more=[("x: 1\r\n\r\n" + HIDDEN + "y", "1")]))),
    ("a field without a name", ask(head(more=[("", "1")]))),
    ("CR LF in a field", ask(head(more=[("x", "1\r\n\r\n" + HIDDEN)]))),
    ("LF in a field", ask(head(more=[("x", "1\n\n" + HIDDEN)]))),
    ("NUL in a field", ask(head(more=[("x", "1\0")]))),
    ("a space before a field", ask(head(more=[("x", " 1")]))),
    ("connection: close", ask(head(more=[("connection", "close")]))),
    ("keep-alive", ask(head(more=[("keep-alive", "1")]))),
    ("upgrade", ask(head(more=[("upgrade", "websocket")]))),
    ("transfer-encoding: chunked", post([("transfer-encoding", "chunked")], b"0\r\n\r\n" + HIDDEN.encode())),
    ("te: gzip", ask(head(more=[("te", "gzip")]))),
    ("te: trailers", ask(head(more=[("te", "trailers")]))),
    ("cookies in pieces", ask(head(more=[("cookie", "a=1"), ("cookie", "b=2")]))),
    ("a pseudo-field behind others", ask([(":method", "GET"), (":scheme", "http"), ("x", "1"), (":path", "/a"), (":authority", "a")])),
    ("two paths", ask(head(more=[(":path", "/b")]))),
    ("two methods", ask(head(more=[(":method", "POST")]))),
    ("an unknown pseudo-field", ask(head(more=[(":x", "1")]))),
    (":status in a request", ask(head(more=[(":status", "200")]))),
    ("no method", ask(head(method=None))),
    ("no scheme", ask(head(scheme=None))),
    ("no path", ask(head(path=None))),
    ("an empty path", ask(head(path=""))),
    ("a path without a slash", ask(head(path="a"))),
    ("GET *", ask(head(path="*"))),
    ("OPTIONS *", ask(head("OPTIONS", "*"))),
    ("a space in the path", ask(head(path="/a b"))),
    ("a request in the path", ask(head(path="/a HTTP/1.1\r\nHost: a\r\n\r\n" + HIDDEN))),
    ("a fragment", ask(head(path="/a#b"))),
    ("a request in the method", ask(head("GET /a HTTP/1.1\r\nHost: a\r\n\r\n" + HIDDEN))),
    ("a space in the method", ask(head("GET /b"))),
    ("scheme https in clear", ask(head(scheme="https"))),
    ("a URL as scheme", ask(head(scheme="http://b/?"))),
    ("neither authority nor host", ask(head(authority=None))),
    ("host alone", ask(head(authority=None, more=[("host", "a")]))),
    ("host and authority", ask(head(more=[("host", "a")]))),
    ("another host than the authority", ask(head(more=[("host", "b")]))),
    ("two hosts", ask(head(authority=None, more=[("host", "a"), ("host", "b")]))),
    ("an empty authority", ask(head(authority=""))),
    ("a user in the authority", ask(head(authority="u:p@a"))),
    ("a request in the authority", ask(head(authority="a\r\n\r\n" + HIDDEN))),
    ("a path in the authority", ask(head(authority="a/b"))),
    ("CONNECT", ask([(":method", "CONNECT"), (":authority", "a:443")], end=False)),
    ("CONNECT to a protocol", ask(head("CONNECT", more=[(":protocol", "websocket")]), end=False)),
    ("150 fields", ask(head(more=[(f"x-{at}", "1") for at in range(150)]))),
    ("a field of 60 kB", split(head(more=[("x", "a" * 60000)]), 5)),
    ("a field of 200 kB", split(head(more=[("x", "a" * 200000)]), 14)),
    ("expects 100", post([("expect", "100-continue")])),
    # Lengths.
    ("a length", post([("content-length", "5")])),
    ("a length that is too short", post([("content-length", "4")])),
    ("a length that is too long", post([("content-length", "6")])),
    ("a length of nothing, and a request", post([("content-length", "0")], HIDDEN.encode())),
    ("a length and no body", ask(head("POST", more=[("content-length", "5")]))),
    ("two equal lengths", post([("content-length", "5"), ("content-length", "5")])),
    ("two lengths", post([("content-length", "5"), ("content-length", "6")])),
    ("two lengths in one field", post([("content-length", "5, 5")])),
    ("length +5", post([("content-length", "+5")])),
    ("length above 64 bits", post([("content-length", "18446744073709551621")])),
    # Trailers.
    ("trailers", OPEN + frame(DATA, 0, 1, b"hello") + ask([("x-t", "1")])),
    ("trailers with a pseudo-field", OPEN + frame(DATA, 0, 1, b"hello") + ask([(":path", "/b")])),
    ("trailers with a length", OPEN + frame(DATA, 0, 1, b"hello") + ask([("content-length", "1")])),
    ("trailers with CR LF", OPEN + frame(DATA, 0, 1, b"hello") + ask([("x-t", "1\r\n\r\n" + HIDDEN)])),
    ("trailers that do not end", OPEN + frame(DATA, 0, 1, b"hello") + ask([("x-t", "1")], end=False)),
    # HPACK.
    ("index 0", raw(b"\x80")),
    ("an index that nothing has", raw(b"\xff\x80\x01")),
    ("an index without end", raw(b"\xff" + b"\xff" * 20)),
    ("a table of 1 GiB", raw(number(1 << 30, 5, 0x20) + literals(head()))),
    ("a table's size behind fields", raw(literals(head()) + b"\x20")),
    ("a literal that is cut", raw(literals(head()) + b"\0\x05ab")),
    ("Huffman's end in a text", raw(literals(head()) + b"\0\x01x\x84\xff\xff\xff\xff")),
    # Frames.
    ("DATA on stream 0", frame(DATA, 0, 0, b"x")),
    ("DATA on an idle stream", frame(DATA, END_STREAM, 1, b"x")),
    ("DATA behind the end", PLAIN + frame(DATA, END_STREAM, 1, b"x")),
    ("HEADERS behind the end", PLAIN + PLAIN),
    ("HEADERS on stream 0", ask(head(), stream=0)),
    ("HEADERS on an even stream", ask(head(), stream=2)),
    ("HEADERS on an earlier stream", ask(head(), stream=5) + ask(head(), stream=3)),
    ("a frame inside a head", frame(HEADERS, END_STREAM, 1, literals(head())) + frame(PING, 0, 0, b"8 octets")),
    ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, literals(head()))),
    ("CONTINUATION of another stream", frame(HEADERS, END_STREAM, 1, literals(head())) + frame(CONTINUATION, END_HEADERS, 3, b"")),
    ("more padding than there is", OPEN + frame(DATA, PADDED | END_STREAM, 1, b"\x09hello")),
    ("padding, all of it", OPEN + frame(DATA, PADDED | END_STREAM, 1, b"\x05\0\0\0\0\0")),
    ("a frame of 20 kB", OPEN + frame(DATA, END_STREAM, 1, b"x" * 20000)),
    ("SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, b"12345")),
    ("SETTINGS on a stream", frame(SETTINGS, 0, 1)),
    ("an ACK with content", frame(SETTINGS, ACK, 0, b"123456")),
    ("a window of 2^31", settings((4, 1 << 31)) + PLAIN),
    ("a window of 0", settings((4, 0)) + PLAIN),
    ("frames of 1 byte", settings((5, 1)) + PLAIN),
    ("push by a word of 7", settings((2, 7)) + PLAIN),
    ("an unknown setting", settings((99, 1)) + PLAIN),
    ("WINDOW_UPDATE of 0", frame(WINDOW, 0, 0, bytes(4)) + PLAIN),
    ("WINDOW_UPDATE of 0 on a stream", OPEN + frame(WINDOW, 0, 1, bytes(4))),
    ("a window that overflows", frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") + PLAIN),
    ("a stream that depends on itself", frame(PRIORITY, 0, 1, b"\0\0\0\x01\x10") + PLAIN),
    ("PRIORITY of 4 bytes", frame(PRIORITY, 0, 1, bytes(4)) + PLAIN),
    ("PUSH_PROMISE", OPEN + frame(PUSH, END_HEADERS, 1, b"\0\0\0\x02" + literals(head()))),
    ("RST_STREAM on an idle stream", frame(RST, 0, 1, bytes(4))),
    ("RST_STREAM of 3 bytes", OPEN + frame(RST, 0, 1, bytes(3))),
    ("PING of 7 bytes", frame(PING, 0, 0, bytes(7))),
    ("PING", frame(PING, 0, 0, b"8 octets") + PLAIN),
    ("an unknown frame", frame(99, 0xFF, 1, b"x") + PLAIN),
    ("GOAWAY, then a request", frame(GOAWAY, 0, 0, bytes(8)) + PLAIN),
    ("a preface that is none", None),
    # Floods. Behind each a plain request, on the same connection.
    ("5,000 requests that are reset", b"".join(ask(head(), at) + frame(RST, 0, at, b"\0\0\0\x08") for at in range(1, 10001, 2)) + ask(head(), 10001)),
    ("5,000 requests at once", b"".join(ask(head(), at) for at in range(1, 10001, 2))),
    ("20,000 SETTINGS", settings() * 20000 + PLAIN),
    ("20,000 PINGs", frame(PING, 0, 0, b"8 octets") * 20000 + PLAIN),
    ("20,000 empty DATA", OPEN + frame(DATA, 0, 1) * 20000 + frame(DATA, END_STREAM, 1)),
    ("20,000 empty CONTINUATIONs", frame(HEADERS, END_STREAM, 1, literals(head())) + frame(CONTINUATION, 0, 1) * 20000),
    ("16 MiB of CONTINUATIONs", frame(HEADERS, END_STREAM, 1, literals(head())) + frame(CONTINUATION, 0, 1, b"\0\x01x" + number(16000, 7) + b"a" * 16000) * 1024),
    ("20,000 WINDOW_UPDATEs of 1", frame(WINDOW, 0, 0, b"\0\0\0\x01") * 20000 + PLAIN),
    ("20,000 PRIORITYs", b"".join(frame(PRIORITY, 0, at, bytes(4) + b"\x10") for at in range(1, 40001, 2)) + ask(head(), 40001)),
    ("60 MB of a table's field", raw(literals(head()) + b"\x40\x01x" + number(4000, 7) + b"a" * 4000)
     + frame(HEADERS, END_HEADERS | END_STREAM, 3, literals(head()) + b"\xbe" * 15000)),
]


def status(fields):
    """The first field of an answer's head, which is its status; `?` where it stands in a table that nobody keeps here."""
    while fields and fields[0] & 0xE0 == 0x20:
        fields = fields[1:]
    if fields[0] & 0x80:
        return STATUSES.get(fields[0] & 0x7F, "?")
    size = fields[1] & 0x7F
    text = fields[2 : 2 + size]
    if not fields[1] & 0x80:
        return text.decode("latin1")
    out, code, bits = "", 0, 0
    for at in range(size * 8):
        code, bits = code << 1 | text[at // 8] >> (7 - at % 8) & 1, bits + 1
        if (code, bits) in DIGITS:
            out, code, bits = out + DIGITS[code, bits], 0, 0
    return out


def error(code):
    return ERRORS[code] if code < len(ERRORS) else str(code)


def exchange(port, message):
    """What became of it: events in the order of what came, and whether the proxy closed."""
    pending = PREFACE + settings() + message if message else PREFACE.replace(b"SM", b"XX")
    events, got, closed = [], b"", False
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(0.02)
        last = time.monotonic()
        while time.monotonic() - last < PATIENCE_S and not closed:
            try:
                if pending:
                    pending = pending[client.send(pending[:65536]):]
                    last = time.monotonic()
            except TimeoutError:
                pass
            except OSError:
                pending = b""
            try:
                more = client.recv(65536)
                closed = not more
            except TimeoutError:
                continue
            except OSError:
                closed = True
                more = b""
            got += more
            while len(got) >= 9 and len(got) >= 9 + (size := int.from_bytes(got[:3])):
                kind, flags, payload, got = got[3], got[4], got[9 : 9 + size], got[9 + size:]
                if kind == SETTINGS and not flags & ACK:
                    pending += frame(SETTINGS, ACK, 0)
                elif kind == HEADERS and (payload[0] & 0xE0 == 0x20 or payload[0] & 0x80 or payload[0] & 0x0F in (8, 9, 10, 11, 12, 13, 14)):
                    events.append(status(payload))
                elif kind == RST:
                    events.append(f"reset {error(int.from_bytes(payload[:4]))}")
                elif kind == GOAWAY:
                    events.append(f"goaway {error(int.from_bytes(payload[4:8]))}")
                elif kind not in (DATA, PING, WINDOW, SETTINGS, HEADERS):
                    events.append(f"frame {kind}")
                last = time.monotonic()
    return events, closed


def told(events, closed, heads):
    kinds = list(dict.fromkeys(events))
    # A connection that ends without an error says so with a GOAWAY of none, or without.
    if len(kinds) > 1:
        kinds = [kind for kind in kinds if kind != "goaway no error"]
    counted = [kind if events.count(kind) == 1 else f"{kind} ({events.count(kind):,})" for kind in kinds]
    cell = ", ".join(counted) or ("closed" if closed else "open")
    if any(re.match(r"\w+ /hidden", text) for text in heads):
        cell += " in a request"
    return cell if len(heads) == 1 else f"{cell} x{len(heads):,}"


def is_served(port):
    """True if a new connection is served."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(5)
        client.sendall(PREFACE + settings() + PLAIN)
        got = b""
        try:
            while b"ok" not in got:
                more = client.recv(65536)
                if not more:
                    return False
                got += more
        except OSError:
            return False
    return True


def cells(message, proxies):
    """A row's cells: of each proxy, and of the server behind it."""
    for port, server in proxies:
        before = len(server.heads)
        events, closed = exchange(port, message)
        time.sleep(0.05)
        cell = told(events, closed, server.heads[before:])
        yield cell if is_served(port) else f"{cell} lost"


def rows(proxies):
    for name, message in MESSAGES:
        got = list(cells(message, proxies))
        yield [name, *got, "alone" if got[0] not in got[1:] else ""]
