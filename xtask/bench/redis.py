"""redis on a tiered volume, with and without hints of its log and its snapshots: experiments/hintstor-redis.

    redis.py redis BINARY KEPT [--binary PATH] [--repeats N] [--fsync POLICY,…] [--seconds N] [--requests N] [--records N]

Each run has a new engine with new pools (engine.toml of the experiment), ext4 on its volume (nbdfuse, a loop device, `discard`), and a
redis-server whose data are there, with log and snapshots. Steps:

1. Every record is set once, without a log. Then the log is turned on, which writes its base, and a snapshot is saved.
2. A pause of a few epochs, in which the placement in force does what it does, and hints what they do.
3. A snapshot begins, and the load with it (redis_load.py): what is measured.
4. Where log and snapshot lie then is asked; redis is stopped, and its own tools check both files.

With hints the only difference is the command: `thermocline hint run --mount tree -- redis-server …`; classes.csv of the experiment says what
becomes of files by their names. Runs with and without are done in turn. Needs root, FUSE, loop devices, nbdfuse and redis-server.
Prints JSON; its `table` is what people read.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import redis_load

EXPERIMENT = pathlib.Path(__file__).resolve().parent.parent.parent / "experiments" / "hintstor-redis"
PAUSE = 10  # seconds: three epochs of engine.toml
URI = "nbd+unix:///v0?socket=data/nbd.sock"
LOG = "appendonlydir/appendonly.aof.manifest"


def until(what, is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} does not come to be")
        time.sleep(0.02)


def shell(place, words):
    done = subprocess.run(["sh", "-ec", words], cwd=place, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr or done.stdout}")
    return done.stdout.strip()


@contextlib.contextmanager
def program(command, place, said):
    """A program that runs as long as it is needed, and ends as it should."""
    with open(place / said, "w") as file:
        process = subprocess.Popen(command, cwd=place, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)


@contextlib.contextmanager
def file_system(place):
    """ext4 on the volume, mounted on `tree`."""
    for folder in ("fuse", "tree"):
        (place / folder).mkdir()
    fuse = subprocess.Popen(["nbdfuse", "fuse", URI], cwd=place, stderr=subprocess.DEVNULL)
    try:
        until("nbdfuse's file", (place / "fuse/nbd").exists)
        device = shell(place, "losetup --find --show fuse/nbd")
        try:
            shell(place, f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {device} && mount -o discard {device} tree")
            try:
                yield
            finally:
                shell(place, "umount tree")
        finally:
            shell(place, f"losetup -d {device}")
    finally:
        shell(place, "umount fuse || umount -l fuse")
        fuse.wait(timeout=60)


def status(args, place):
    return json.loads(shell(place, f"{args.binary} status --data data --json"))


def written(args, place):
    """By pool: (bytes that clients wrote, bytes that were moved in)."""
    pools = status(args, place)["pools"]
    return {pool["name"]: (pool["counters"]["written_bytes"], pool["counters"]["moved_in_bytes"]) for pool in pools}


def lies(args, place, pattern):
    """By pool: bytes of the files of this pattern that lie there."""
    shell(place, "sync -f tree")
    said = json.loads(shell(place, f"{args.binary} hint path --dry-run --data data {pattern}"))
    chunks = json.loads(shell(place, f"{args.binary} volume map v0 --data data --json"))
    names, found = [pool["name"] for pool in status(args, place)["pools"]], {}
    for hint in said["hints"]:
        start, end = hint["offset_bytes"], hint["offset_bytes"] + hint["length_bytes"]
        for run in chunks:
            part = min(end, run["offset_bytes"] + run["length_bytes"]) - max(start, run["offset_bytes"])
            if part > 0 and run["pools"]:
                pool = names[run["pools"][0]]
                found[pool] = found.get(pool, 0) + part
    return found


def info(socket, field):
    """A field of redis's INFO."""
    with redis_load.connect(socket) as connection:
        connection.sendall(redis_load.command(b"INFO", b"persistence"))
        stream = connection.makefile("rb")
        text = stream.read(int(stream.readline()[1:])).decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)[field]


def idle(socket):
    return all(info(socket, field) == "0" for field in ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"))


def measure(args, place, policy, hinted, seed):
    socket = place / "redis.sock"
    server = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", "tree", "--save", "", "--appendonly", "no",
              "--appendfsync", policy, "--auto-aof-rewrite-percentage", "0"]
    if hinted:
        server = [args.binary, "hint", "run", "--mount", "tree", "--data", "data", "--keep", "--", *server]
    with program(server, place, "redis.log"):
        until("redis", lambda: socket.exists() and redis_load.ask(socket, "PING") == "+PONG")
        redis_load.fill(socket, args.records, seed)
        redis_load.ask(socket, "CONFIG", "SET", "appendonly", "yes")
        until("the log's base", lambda: idle(socket))
        redis_load.ask(socket, "BGSAVE")
        until("a snapshot", lambda: idle(socket))
        time.sleep(PAUSE)
        before = written(args, place)
        redis_load.ask(socket, "BGSAVE")
        todo = redis_load.requests(args.records, args.requests, seed)
        seconds, reads, updates = redis_load.run(socket, todo, args.clients, args.seconds, seed)
        # A process in the background of which nobody waits must not be killed by the end.
        until("the snapshot", lambda: idle(socket))
        if info(socket, "aof_last_write_status") != "ok" or info(socket, "rdb_last_bgsave_status") != "ok":
            raise RuntimeError("redis could not write its files")
        after = written(args, place)
        log, snapshot = lies(args, place, "tree/appendonlydir/*.incr.aof"), lies(args, place, "tree/dump.rdb tree/appendonlydir/*.base.rdb")
    shell(place, f"redis-check-aof tree/{LOG} && redis-check-rdb tree/dump.rdb")
    return {
        "policy": policy, "hinted": hinted, "operations": len(reads) + len(updates), "seconds": seconds,
        "per_s": (len(reads) + len(updates)) / seconds,
        **{f"{name}_{label}_ms": times[int(len(times) * part)] * 1e3
           for name, times in (("read", reads), ("update", updates)) for label, part in (("p50", 0.5), ("p99", 0.99))},
        "written": {pool: after[pool][0] - before[pool][0] for pool in after},
        "moved": {pool: after[pool][1] - before[pool][1] for pool in after},
        "log": log, "snapshot": snapshot,
    }


def one(args, folder, policy, hinted, repeat):
    place = folder / f"{policy}-{'hints' if hinted else 'none'}-{repeat}"
    place.mkdir()
    for name in ("engine.toml", "classes.csv"):
        shutil.copy(EXPERIMENT / name, place)
    with program([args.binary, "up", "engine.toml", "--log", "none"], place, "engine.log"):
        until("the engine", (place / "data/nbd.sock").exists)
        with file_system(place):
            result = measure(args, place, policy, hinted, repeat)
    shutil.rmtree(place)
    return result


def spread(runs, of, form="{:.0f}"):
    values = sorted(of(run) for run in runs)
    return form.format(statistics.median(values)) + " (" + " to ".join(form.format(value) for value in (values[0], values[-1])) + ")"


def share(pools):
    return 100 * pools.get("ssd", 0) / max(sum(pools.values()), 1)


def table(runs, args):
    text = (f"{args.records} records of 1 KiB, {args.clients} clients, {args.seconds} s or {args.requests} requests; median (least to most)\n\n"
            "| fsync | hints | requests a second | read p50, ms | read p99, ms | update p50, ms | update p99, ms | log on SSD, % | snapshots on SSD, % "
            "| written to SSD, MiB | to disk, MiB | moved, MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
    for policy in args.fsync.split(","):
        for hinted in (False, True):
            these = [run for run in runs if run["policy"] == policy and run["hinted"] == hinted]
            cells = [spread(these, lambda run: run["per_s"])]
            cells += [spread(these, lambda run, key=key: run[key], "{:.2f}")
                      for key in ("read_p50_ms", "read_p99_ms", "update_p50_ms", "update_p99_ms")]
            cells += [spread(these, lambda run: share(run["log"])), spread(these, lambda run: share(run["snapshot"]))]
            cells += [spread(these, lambda run, pool=pool: run["written"][pool] / 2**20) for pool in ("ssd", "hdd")]
            cells += [spread(these, lambda run: sum(run["moved"].values()) / 2**20)]
            text += f"| {policy} | {'yes' if hinted else 'no'} | " + " | ".join(cells) + " |\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["redis"])
    parser.add_argument("built", help="the engine")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("--binary", help="an engine to take instead")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fsync", default="always,everysec,no")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=300_000, help="of a run, at most")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    if os.geteuid() or not all(map(shutil.which, ("nbdfuse", "redis-server", "mkfs.ext4", "losetup"))):
        sys.exit("needs root, nbdfuse, redis-server, mkfs.ext4 and loop devices")
    with tempfile.TemporaryDirectory(dir=args.kept) as folder:
        folder = pathlib.Path(folder).resolve()
        runs = []
        for repeat, policy, hinted in itertools.product(range(args.repeats), args.fsync.split(","), (False, True)):
            runs.append(one(args, folder, policy, hinted, repeat))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"runs": runs, "table": table(runs, args)}))


main()
