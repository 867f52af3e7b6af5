"""Workers that compute Fibonacci numbers over HTTP, one request after the other: balance_worker.py CALLS_PER_SECOND PORT…

Each port is a process of its own. A worker has a slice of a core that does not depend on how many others are at work: after every piece
of computing it rests until the piece has lasted as long as it would on a machine that makes CALLS_PER_SECOND recursive calls a second.
If the true machine was too slow for that, the worker says by how much (`late_s`), and the next rests are shorter.

`GET /N` answers with the N-th Fibonacci number, computed by the naive recursion. Requests wait first come, first served, whichever
connection they come by. `GET /load` is the load report (docs/formats/load-report.md), answered at once, with figures for the measurement.
"""

import asyncio
import collections
import json
import os
import sys
import time

LEAF = 12  # smaller numbers are computed in one go: 465 calls
PIECE_S = 0.05


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


CALLS = [1, 1]
while len(CALLS) < 64:
    CALLS.append(CALLS[-1] + CALLS[-2] + 1)


class Worker:
    def __init__(self, calls_per_s, balancers):
        self.calls_per_s, self.balancers = calls_per_s, balancers
        self.waiting = collections.deque()
        self.came = asyncio.Event()
        self.queue = self.arrivals = self.pieces = 0
        self.busy_s = self.late_s = self.late_most_s = 0.0

    def load(self):
        return json.dumps({"queue": self.queue, "arrivals": self.arrivals, "balancers": self.balancers, "busy_s": self.busy_s, "late_s": self.late_s,
                           "late_most_s": self.late_most_s, "pieces": self.pieces, "cpu_s": time.process_time()})

    async def serve(self):
        """Numbers one after the other, for ever."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            while not self.waiting:
                self.came.clear()
                await self.came.wait()
                due = max(due, clock())
            n, answer = self.waiting.popleft()
            total, stack, calls = 0, [n], 0
            while stack:
                k = stack.pop()
                if k > LEAF:
                    stack += (k - 1, k - 2)
                    calls += 1
                else:
                    total += fibonacci(k)
                    calls += CALLS[k]
                if not stack or calls >= self.calls_per_s * PIECE_S:
                    due = await self.rest(due, calls / self.calls_per_s, clock)
                    calls = 0
            self.queue -= 1
            answer(str(total))

    async def rest(self, due, lasts, clock):
        due += lasts
        self.busy_s += lasts
        self.pieces += 1
        ahead = due - clock()
        if ahead > 0:
            await asyncio.sleep(ahead)
        late = clock() - due
        self.late_s += late
        self.late_most_s = max(self.late_most_s, late)
        return due


class Connection(asyncio.Protocol):
    def __init__(self, worker):
        self.worker, self.got = worker, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.got += data
        while b"\r\n\r\n" in self.got:
            head, self.got = self.got.split(b"\r\n\r\n", 1)
            path = head.split(b" ", 2)[1].decode().strip("/")
            if path == "load":
                self.answer(self.worker.load())
                continue
            self.worker.arrivals += 1
            self.worker.queue += 1
            self.worker.waiting.append((int(path), self.answer))
            self.worker.came.set()

    def answer(self, text):
        self.transport.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())


async def run(calls_per_s, balancers, port, parent):
    worker = Worker(calls_per_s, balancers)
    loop = asyncio.get_running_loop()
    loop.add_reader(parent, lambda: os._exit(0))  # the parent is gone
    await loop.create_server(lambda: Connection(worker), "127.0.0.1", port, backlog=1024)
    await worker.serve()


def main():
    calls_per_s, balancers, ports = float(sys.argv[1]), int(sys.argv[2]), map(int, sys.argv[3:])
    parent, alive = os.pipe()
    for port in ports:
        if os.fork() == 0:
            os.close(alive)
            asyncio.run(run(calls_per_s, balancers, port, parent))
    while True:
        os.wait()


main()
