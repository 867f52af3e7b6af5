"""File sets and loads of `cargo xtask bench hintstor`, after filebench's personalities (003 §4.1, §4.2).

    hintstor_load.py FOLDER JSON     runs one load in FOLDER and prints what it did, as JSON

- `fileserver`: delete a file, create one and write it whole, append to one, read one whole, stat one: two writes to a read;
- `webserver`: ten files read whole, then an append to a log;
- `singlestreamwrite`: a file written from front to back; `randomwrite`: 8 KiB at random in a file, past the page cache.

Which operation comes when, on which file, is decided by the seed before anything runs: two runs of a seed ask for the same, however
fast they are answered. Threads take operations in order; operations on one file wait for each other. At the end the file system is
synchronised, within the time that is measured. With `cgroup` the process first joins that group, which bounds its page cache.
"""

import ctypes
import json
import mmap
import os
import random
import resource
import sys
import threading
import time

KIB, MIB = 1 << 10, 1 << 20
IO = MIB  # filebench's iosize
# Sizes of the source's file server; three in four are below 1 MiB.
SIZES = [KIB, 4 * KIB, 6 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 10 * MIB, 50 * MIB]
DIRECTORIES = 20
APPEND = 16 * KIB
MISSING = 5  # files that are deleted before the first of them is made anew


def contents(seed):
    return random.Random(seed).randbytes(IO)


def source_set(seed, factor, giant=1 << 30, large=100 * MIB):
    """[(name, bytes)]: 10,248 files of the source in 20 directories, one for `factor` of them, in the order of creation. Of the
    48 files of 1 GB, fewer than `factor`, one is left, shortened to their share of the bytes."""
    files = [giant * 48 // factor] + [large] * (200 // factor) + [SIZES[i % len(SIZES)] for i in range(10_000 // factor)]
    random.Random(seed).shuffle(files)
    return [(f"d{at % DIRECTORIES:02}/f{at:04}", size) for at, size in enumerate(files)]


def write_whole(path, size, block):
    with open(path, "wb", buffering=0) as file:
        for start in range(0, size, IO):
            file.write(block[:min(IO, size - start)])


def make(folder, files, seed):
    block = contents(seed)
    for name, size in files:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, size, block)


def decks(rng, files):
    """Every file once, in random order; then again in another."""
    while True:
        deck = list(files)
        rng.shuffle(deck)
        yield from deck


def fileserver(files, loops, seed):
    rng, sizes = random.Random(seed), dict(files)
    removed, read = (decks(rng, sizes) for _ in range(2))
    there, missing, ops = set(sizes), [], []

    def choose(deck):
        return next(name for name in deck if name in there)

    def create():
        name = missing.pop(0)
        there.add(name)
        ops.append(("create", name, sizes[name]))

    for _ in range(loops):
        name = choose(removed)
        there.remove(name)
        missing.append(name)
        ops.append(("delete", name, 0))
        if len(missing) > MISSING:
            create()
        present = sorted(there)
        ops.append(("append", rng.choice(present), rng.randrange(1, 2 * APPEND)))
        ops.append(("read", choose(read), 0))
        ops.append(("stat", rng.choice(present), 0))
    while missing:
        create()
    return ops


def webserver(files, loops, seed):
    deck, ops = decks(random.Random(seed), [name for name, _ in files]), []
    for at in range(loops):
        ops.append(("read", next(deck), 0))
        if at % 10 == 9:
            ops.append(("append", os.path.join(os.path.dirname(files[0][0]), "log"), APPEND))
    return ops


def singlestreamwrite(files, loops, seed):
    return [("create", name, size) for name, size in files * loops]


def randomwrite(files, loops, seed):
    rng, unit = random.Random(seed), 8 * KIB
    return [("overwrite", name, rng.randrange(size // unit) * unit) for _ in range(loops) for name, size in files]


MIXES = {"fileserver": fileserver, "webserver": webserver, "singlestreamwrite": singlestreamwrite, "randomwrite": randomwrite}


class Turns:
    """Operations in order, and who may begin."""

    def __init__(self, ops):
        self.ops, self.next, self.change = ops, 0, threading.Condition()
        counts, self.turn = {}, {}
        self.tickets = []
        for _, name, _ in ops:
            self.tickets.append(counts.get(name, 0))
            counts[name] = counts.get(name, 0) + 1

    def take(self):
        with self.change:
            at, self.next = self.next, self.next + 1
            if at >= len(self.ops):
                return None
            # Who comes before on this file was taken before, so it ends.
            self.change.wait_for(lambda: self.turn.get(self.ops[at][1], 0) == self.tickets[at])
            return self.ops[at]

    def done(self, name):
        with self.change:
            self.turn[name] = self.turn.get(name, 0) + 1
            self.change.notify_all()


class Load:
    def __init__(self, folder, ops, seed):
        self.folder, self.turns, self.block = folder, Turns(ops), contents(seed)
        self.took, self.bytes, self.failed, self.lock = {}, {"read": 0, "write": 0}, None, threading.Lock()

    def one(self, kind, path, amount):
        """(Bytes read, bytes written)."""
        if kind == "create":
            write_whole(path, amount, self.block)
            return 0, amount
        if kind == "append":
            with open(path, "ab", buffering=0) as file:
                file.write(self.block[:amount])
            return 0, amount
        if kind == "read":
            read = 0
            with open(path, "rb", buffering=0) as file:
                while got := len(file.read(IO)):
                    read += got
            return read, 0
        if kind == "overwrite":
            return self.overwrite(path, amount)
        os.unlink(path) if kind == "delete" else os.stat(path)
        return 0, 0

    def overwrite(self, path, offset):
        memory = mmap.mmap(-1, 8 * KIB)  # aligned, as requests past the page cache must be
        memory.write(self.block[offset % (IO // 2):][:8 * KIB])
        file = os.open(path, os.O_WRONLY | os.O_DIRECT)
        try:
            return 0, os.pwrite(file, memory, offset)
        finally:
            os.close(file)
            memory.close()

    def work(self):
        try:
            while op := self.turns.take():
                kind, name, amount = op
                start = time.monotonic()
                read, written = self.one(kind, os.path.join(self.folder, name), amount)
                took = time.monotonic() - start
                self.turns.done(name)
                with self.lock:
                    self.took.setdefault(kind, []).append(took)
                    self.bytes["read"] += read
                    self.bytes["write"] += written
        except BaseException as error:  # A thread that ends alone would let the others wait for ever.
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)


def run(folder, plan):
    files = [tuple(file) for file in plan["files"]]
    ops = MIXES[plan["mix"]](files, plan["loops"], plan["seed"])
    load = Load(folder, ops, plan["seed"])
    threads = [threading.Thread(target=load.work) for _ in range(plan["threads"])]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = time.monotonic() - start
    file = os.open(folder, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).syncfs(file):
        raise OSError(ctypes.get_errno(), "syncfs")
    os.close(file)
    seconds = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    times = [took for kind in load.took.values() for took in kind]
    return {"ops": len(ops), "seconds": seconds, "asked_seconds": asked, "read_bytes": load.bytes["read"],
            "written_bytes": load.bytes["write"], "cpu_seconds": used.ru_utime + used.ru_stime, "op_mean_s": sum(times) / len(times),
            "kinds": {kind: [len(took), sum(took) / len(took)] for kind, took in sorted(load.took.items())}}


def main():
    folder, plan = sys.argv[1], json.loads(sys.argv[2])
    if plan.get("cgroup"):
        with open(os.path.join(plan["cgroup"], "cgroup.procs"), "w") as group:
            group.write(str(os.getpid()))
    json.dump(run(folder, plan), sys.stdout)


if __name__ == "__main__":
    main()
