"""Hours of mixed load through a tunnel on this machine: does either end grow, and is every byte right?

    tunnel_soak.py soak BINARY KEPT [--minutes N] [--warm-up N] [--cache SIZE] [--binary PATH]

1. Both ends run with `goodput` and a small cache, so that it is full after the warm-up. A server answers by what it is asked for.
2. Clients, each in a loop of its own: downloads of files that slowly change (SHA-256 compared); uploads (the server's digest compared);
   an echo with pauses; downloads that are broken off in the middle; clients that do not read for half a minute; connections that say nothing;
   clients that leave at once; targets that refuse.
3. Each half minute both ends' resident memory, descriptors and threads are taken from /proc.

What is told: memory after the warm-up and at the end, the slope of a line through all samples between, in MiB an hour, with its standard error, and
descriptors at the end beside the flows that are open. Prints JSON; its `table` is what people read.
"""

import argparse
import hashlib
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

from balance_processes import free_ports, machine, resident_bytes

SAMPLE_S = 30


def contents(seed, size):
    return random.Random(seed).randbytes(size)


def read_line(connection):
    line = b""
    while not line.endswith(b"\n"):
        more = connection.recv(1)
        if not more:
            return None
        line += more
    return line.decode().split()


def read_all(connection, size):
    digest, left = hashlib.sha256(), size
    while left:
        more = connection.recv(min(left, 1 << 16))
        if not more:
            raise OSError("ended early")
        digest.update(more)
        left -= len(more)
    return digest.hexdigest()


def serve(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    try:
        with connection:
            while asked := read_line(connection):
                what, *more = asked
                if what == "get":
                    # Half of a file is its own, half is what all files of a generation share.
                    seed, shared, size = map(int, more)
                    connection.sendall(contents(seed, size // 2) + contents(shared, size - size // 2))
                elif what == "put":
                    connection.sendall((read_all(connection, int(more[0])) + "\n").encode())
                elif what == "echo":
                    connection.sendall(" ".join(asked).encode() + b"\n")
                elif what == "flood":
                    while True:
                        connection.sendall(b"x" * 65536)
    except OSError:
        pass


class Load:
    """Clients, and what became of what they did."""

    def __init__(self, door, refusing):
        self.door, self.refusing = door, refusing
        self.counts, self.bytes, self.errors = {}, 0, []
        self.lock = threading.Lock()
        self.is_over = False
        for number, (client, pause) in enumerate([(self.download, 0.3), (self.download, 0.3), (self.upload, 0.5), (self.echo, 0.2), (self.break_off, 1.0),
                                                  (self.stall, 1.0), (self.say_nothing, 1.0), (self.leave, 0.1), (self.be_refused, 2.0)]):
            threading.Thread(target=self.loop, args=(client, pause, random.Random(number)), daemon=True).start()

    def loop(self, client, pause, dice):
        while not self.is_over:
            try:
                moved = client(dice) or 0
                with self.lock:
                    self.counts[client.__name__] = self.counts.get(client.__name__, 0) + 1
                    self.bytes += moved
            except (OSError, AssertionError) as error:
                with self.lock:
                    self.errors.append(f"{client.__name__}: {error}")
            time.sleep(pause * (0.5 + dice.random()))

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.door), timeout=60)
        return connection

    def download(self, dice):
        size = dice.choice([2_000, 60_000, 1_000_000, 2_000_000])
        # Every three minutes there is a new generation.
        seed, shared = dice.randrange(40), 1000 + int(time.time()) // 180
        with self.connect() as connection:
            connection.sendall(f"get {seed} {shared} {size}\n".encode())
            wanted = hashlib.sha256(contents(seed, size // 2) + contents(shared, size - size // 2)).hexdigest()
            assert read_all(connection, size) == wanted, "other bytes than were sent"
        return size

    def upload(self, dice):
        body = contents(dice.randrange(1 << 30), dice.choice([100, 30_000, 500_000]))
        with self.connect() as connection:
            connection.sendall(f"put {len(body)}\n".encode() + body)
            assert read_line(connection) == [hashlib.sha256(body).hexdigest()], "other bytes than were sent"
        return len(body)

    def echo(self, dice):
        with self.connect() as connection:
            for turn in range(20):
                connection.sendall(f"echo {turn}\n".encode())
                assert read_line(connection) == ["echo", str(turn)], "another echo"
                time.sleep(0.05)
        return 400

    def break_off(self, dice):
        with self.connect() as connection:
            connection.sendall(f"get {dice.randrange(1 << 30)} 1 4000000\n".encode())
            connection.recv(100_000)

    def stall(self, dice):
        with self.connect() as connection:
            connection.sendall(b"flood\n")
            time.sleep(30)

    def say_nothing(self, dice):
        with self.connect():
            time.sleep(60)

    def leave(self, dice):
        self.connect().close()

    def be_refused(self, dice):
        try:
            with socket.create_connection(("127.0.0.1", self.refusing), timeout=60) as connection:
                assert connection.recv(1) == b"", "an answer from nobody"
        except ConnectionResetError:
            pass


def start(binary, folder, name, *words):
    other = "exit" if name == "enter" else "enter"
    command = [binary, "tunnel", name, *words, "--key", folder / f"{name}.key", "--peer", folder / f"{other}.pub",
               "--socket", folder / f"{name}.sock", "--log", "none"]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=open(folder / f"{name}.log", "w"))


def wait_until_met(binary, folder):
    for _ in range(600):
        said = subprocess.run([binary, "tunnel", "status", "--socket", folder / "enter.sock", "--json"], capture_output=True, text=True)
        if said.returncode == 0 and any(link["is_up"] for link in json.loads(said.stdout)["links"]):
            return
        time.sleep(0.1)
    sys.exit(f"the ends do not meet: {said.stdout}{said.stderr}")


def slope(samples):
    """MiB an hour, and its standard error."""
    times, values = [at / 3600 for at, _ in samples], [value / 2**20 for _, value in samples]
    count, middle, mean = len(times), sum(times) / len(times), sum(values) / len(values)
    spread = sum((at - middle) ** 2 for at in times)
    rise = sum((at - middle) * (value - mean) for at, value in zip(times, values)) / spread
    rest = sum((value - mean - rise * (at - middle)) ** 2 for at, value in zip(times, values))
    return rise, (rest / max(count - 2, 1) / spread) ** 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("built")
    parser.add_argument("kept")
    parser.add_argument("--binary")
    parser.add_argument("--minutes", type=float, default=180)
    parser.add_argument("--warm-up", type=float, default=15, help="minutes")
    parser.add_argument("--cache", default="32MiB")
    args = parser.parse_args()
    binary = str(pathlib.Path(args.binary or args.built).resolve())
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    server = listener.getsockname()[1]
    exit_port, door, refusing, nobody = free_ports(4)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        folder = pathlib.Path(folder)
        for name in ("enter", "exit"):
            subprocess.run([binary, "tunnel", "keys", folder / name], check=True, stdout=subprocess.DEVNULL)
        allow = f"127.0.0.1:{server},127.0.0.1:{nobody}"
        ends = {"exit": start(binary, folder, "exit", "--listen", f"127.0.0.1:{exit_port}", "--allow", allow, "--cache", args.cache),
                "enter": start(binary, folder, "enter", "--to", f"127.0.0.1:{exit_port}", "--forward", f"{door}=127.0.0.1:{server}",
                               "--forward", f"{refusing}=127.0.0.1:{nobody}", "--cache", args.cache)}
        try:
            wait_until_met(binary, folder)
            load, began, samples = Load(door, refusing), time.monotonic(), []
            while time.monotonic() - began < args.minutes * 60:
                time.sleep(SAMPLE_S)
                row = {"at_s": time.monotonic() - began, "bytes": load.bytes, "errors": len(load.errors)}
                for name, end in ends.items():
                    if end.poll() is not None:
                        sys.exit(f"the {name} ended: {(folder / f'{name}.log').read_text()[-2000:]}")
                    row[name] = {"resident": resident_bytes(end.pid), "files": len(list(pathlib.Path(f"/proc/{end.pid}/fd").iterdir())),
                                 "threads": len(list(pathlib.Path(f"/proc/{end.pid}/task").iterdir()))}
                samples.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
            # What the end of the ends breaks off is no error.
            errors = list(load.errors)
        finally:
            for end in ends.values():
                end.kill()
                end.wait()
    warm = [row for row in samples if row["at_s"] >= args.warm_up * 60]
    lines = [f"{args.minutes:.0f} minutes, the first {args.warm_up:.0f} apart; caches of {args.cache}; {machine()}", ""]
    lines += ["| end | resident after the warm-up, MiB | at the end | most | slope, MiB an hour | descriptors, least to most | threads |", "|---|---:|---:|---:|---:|---:|---:|"]
    for name in ends:
        memory, files = [row[name]["resident"] / 2**20 for row in warm], [row[name]["files"] for row in warm]
        rise, error = slope([(row["at_s"], row[name]["resident"]) for row in warm])
        lines.append(f"| {name} | {memory[0]:.1f} | {memory[-1]:.1f} | {max(memory):.1f} | {rise:+.2f} ± {2 * error:.2f} | {min(files)} to {max(files)} | {max(row[name]['threads'] for row in warm)} |")
    done = ", ".join(f"{name} {count:,}" for name, count in sorted(load.counts.items()))
    lines += ["", f"Done: {done}. {load.bytes / 1e9:.2f} GB compared. Errors: {len(errors)}" + (f", the first: {errors[0]}" if errors else "") + "."]
    print(json.dumps({"samples": samples, "errors": errors[:100], "table": "\n".join(lines) + "\n"}))


main()
