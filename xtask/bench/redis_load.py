"""A load as YCSB's workload A on a redis server: half reads, half updates, keys by Zipf 0.99, scattered; values of 1 KiB.

A closed loop: each client has one request under way, and asks for the next thing when it is answered. Which requests come, in which
order, depends on the seed alone; which client sends them does not matter. A latency is the time from sending to the whole answer.
"""

import itertools
import random
import selectors
import socket
import time

VALUE = 1024
ZIPF = 0.99
GOT = len(f"${VALUE}\r\n") + VALUE + 2
STORED = len("+OK\r\n")
PIPELINED = 256  # keys of one message while they are loaded


def key(number):
    return b"user%010d" % number


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Values:
    """Values that do not compress: pieces of random bytes, without drawing each anew."""

    def __init__(self, rng):
        self._rng = rng
        self._bytes = rng.randbytes(1 << 22)

    def next(self):
        start = self._rng.randrange(len(self._bytes) - VALUE)
        return self._bytes[start:start + VALUE]


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(path))
    return connection


def ask(path, *words, seconds=60):
    """One command; its answer's first line."""
    with connect(path) as connection:
        connection.settimeout(seconds)
        connection.sendall(command(*(word.encode() for word in words)))
        answer = connection.makefile("rb").readline().decode().strip()
    if answer.startswith("-"):
        raise RuntimeError(f"{' '.join(words)}: {answer}")
    return answer


def fill(path, records, seed):
    """Sets every key once."""
    values = Values(random.Random(seed))
    with connect(path) as connection:
        for first in range(0, records, PIPELINED):
            count = min(PIPELINED, records - first)
            connection.sendall(b"".join(command(b"SET", key(number), values.next()) for number in range(first, first + count)))
            missing = count * STORED
            while missing:
                missing -= len(connection.recv(missing))


def requests(records, count, seed):
    """(whether it updates, which record) of each request."""
    rng = random.Random(seed)
    scattered = list(range(records))
    rng.shuffle(scattered)
    weights = list(itertools.accumulate((rank + 1) ** -ZIPF for rank in range(records)))
    chosen = rng.choices(scattered, cum_weights=weights, k=count)
    return [(rng.random() < 0.5, number) for number in chosen]


class Client:
    def __init__(self, path):
        self.connection = connect(path)
        self.connection.setblocking(False)
        self.missing = 0
        self.updates = False
        self.sent = 0.0

    def send(self, request, values):
        self.updates, number = request
        words = (b"SET", key(number), values.next()) if self.updates else (b"GET", key(number))
        self.missing = STORED if self.updates else GOT
        self.sent = time.perf_counter()
        message = command(*words)
        if self.connection.send(message) != len(message):
            raise RuntimeError("a socket's buffer holds less than one request")

    def answered(self):
        """Takes what has come; whether that was the end of the answer."""
        is_first = self.missing == (STORED if self.updates else GOT)
        answer = self.connection.recv(GOT)
        if not answer or (is_first and answer[:1] == b"-"):
            raise RuntimeError(f"redis answered {answer!r}")
        self.missing -= len(answer)
        return self.missing == 0


def run(path, todo, clients, seconds, seed):
    """Asks until everything in `todo` was answered or the time is over: (seconds, latencies of reads, of updates)."""
    values = Values(random.Random(seed))
    took = ([], [])
    selector = selectors.DefaultSelector()
    queue = iter(todo)
    all_clients = [Client(path) for _ in range(clients)]
    start = time.perf_counter()
    waiting = 0
    for client, request in zip(all_clients, queue):
        selector.register(client.connection, selectors.EVENT_READ, client)
        client.send(request, values)
        waiting += 1
    while waiting:
        for ready, _ in selector.select():
            client = ready.data
            if not client.answered():
                continue
            now = time.perf_counter()
            took[client.updates].append(now - client.sent)
            request = next(queue, None) if now - start < seconds else None
            if request is None:
                waiting -= 1
            else:
                client.send(request, values)
    ended = time.perf_counter() - start
    for client in all_clients:
        client.connection.close()
    return ended, sorted(took[0]), sorted(took[1])
