"""A server that can be made to misbehave: balance_backend.py PORT.

It serves one request after the other, 4 ms each, and echoes what was asked, so that a mixed-up answer is noticed. `GET /mode/NAME` sets
how it behaves from then on: `good`, `garbage` (answers that are none, in seven ways), `modest` (reports that nothing waits, whatever
does), `boastful` (reports the longest queue that may be), `babbling` (reports that are none), `slow` (half a second each).
"""

import asyncio
import collections
import random
import sys

SERVICE_S = 0.004
draw = random.Random(7)


def good(text):
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


def garbage(text):
    """(bytes, whether the connection is closed behind them)."""
    kind = draw.randrange(7)
    if kind == 0:
        return draw.randbytes(200), True
    if kind == 1:
        return b"HTTP/1.1 99999 What\r\n\r\n", True
    if kind == 2:
        return b"HTTP/1.1 200 OK\r\nContent-Le", True
    if kind == 3:
        return f"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n{text}".encode(), True
    if kind == 4:
        return f"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 400\r\n\r\n{text}".encode(), True
    if kind == 5:  # an answer that nobody asked for follows; it must reach nobody
        return good(text) + good("smuggled"), False
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nnot a chunk", True


class Server:
    def __init__(self):
        self.mode, self.waiting, self.came, self.queue, self.arrivals = "good", collections.deque(), asyncio.Event(), 0, 0

    def load(self):
        if self.mode == "babbling":
            return draw.choice(['{"queue": -5}', '{"queue": 1e99}', "[[[[[[", '{"arrivals": 3}', '{"queue": "many"}', "{" * 3000])
        queue = {"modest": 0, "boastful": 1 << 20}.get(self.mode, self.queue)
        return f'{{"queue": {queue}, "arrivals": {self.arrivals}, "balancers": 1}}'

    async def serve(self):
        while True:
            while not self.waiting:
                self.came.clear()
                await self.came.wait()
            path, transport = self.waiting.popleft()
            await asyncio.sleep(0.5 if self.mode == "slow" else SERVICE_S)
            self.queue -= 1
            answer, closes = garbage(path) if self.mode == "garbage" else (good(path), False)
            transport.write(answer)
            if closes:
                transport.close()


class Connection(asyncio.Protocol):
    def __init__(self, server):
        self.server, self.got = server, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data
        while b"\r\n\r\n" in self.got:
            head, rest = self.got.split(b"\r\n\r\n", 1)
            length = 64 if head.startswith(b"POST") else 0  # clients send no others
            if len(rest) < length:
                return
            self.got = rest[length:]
            path = head.split(b" ", 2)[1].decode()
            if path.startswith("/mode/"):
                self.server.mode = path[6:]
            if path == "/load" or path.startswith("/mode/") or path == "/health":
                self.transport.write(good(self.server.load()))
                continue
            self.server.arrivals += 1
            self.server.queue += 1
            self.server.waiting.append((path, self.transport))
            self.server.came.set()


async def run(port):
    server = Server()
    await asyncio.get_running_loop().create_server(lambda: Connection(server), "127.0.0.1", port, backlog=1024)
    await server.serve()


asyncio.run(run(int(sys.argv[1])))
