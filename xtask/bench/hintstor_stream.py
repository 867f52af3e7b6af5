"""HintStor's stream ID (003 §4.2): four loads at once, each on files of its own, on SCM, SSD and disk.

A hundredth of the source's bytes; of its files' sizes the source tells the sum, and that the single stream writes 20 GB: one of five
such files is written, the others are cold. Operations are the same in each case; the time is that of the last load to end.

- `none`: chunks by address, and the baseline;
- `streams`: what each load does is told. ext4: by `thermocline hint path` when the files are there, and by `thermocline hint run` around
  the loads. btrfs, whose files have no addresses that FIEMAP tells: the engine reads the file system, and a table of classes
  goes by directory.
"""

import hintstor_load as loads
import hintstor_rig as rig
from hintstor_bench import MIB, beside_none, of

POOLS = [("scm", "scm", 48, 0), ("ssd", "ssd-sata", 208, 0), ("hdd", "hdd-7200", 1280, 0)]
VOLUME_MIB = 1536
ONE = 1 << 20
FILES = {
    "webserver": [(f"web{at:02}", 2 * ONE) for at in range(60)],
    "fileserver": [(f"file{at:02}", ONE) for at in range(50)],
    "randomwrite": [("random", 32 * ONE)],
    "singlestreamwrite": [(f"single{at}", 200 * ONE) for at in range(5)],
}
# Stream, usage, where the source puts it; loops; threads.
STREAMS = {
    "webserver": (1, "read-intensive", "between fastest", 340, 4),
    "fileserver": (2, "mixed", "between fastest", 170, 4),
    "randomwrite": (3, "random-write", "fastest between", 2800, 2),
    "singlestreamwrite": (4, "sequential-write", "slowest", 3, 1),
}
BY_DIRECTORY = "IO class id,IO class name,Eviction priority,Allocation,Pools\n1,metadata,0,1.00,fastest\n" + "".join(
    f"{stream + 1},directory:/{mix},{200 if pools == 'slowest' else 5 - stream},{0 if pools == 'slowest' else 1}.00,{pools}\n"
    for mix, (stream, _, pools, _, _) in STREAMS.items())
HINTS = {"none": {"ext4": None, "btrfs": None}, "streams": {"ext4": {"survey": False}, "btrfs": {"classes": BY_DIRECTORY}}}
# btrfs writes elsewhere what is written anew: the last group is there to tell what that does.
GROUPS = {"ext4": ("ext4", ""), "btrfs": ("btrfs", ""), "btrfs without copy on write": ("btrfs", ",nodatacow")}

COLUMNS = [
    ("MB/s", of(lambda run: run["load"]["bytes"] / run["load"]["seconds"] / 1e6), 2),
    ("times none", lambda run, none: none and none["load"]["seconds"] / run["load"]["seconds"], 2),
    *((f"{mix}, s", of(lambda run, mix=mix: run["load"]["each"][mix]["seconds"]), 1) for mix in STREAMS),
    ("mean latency, ms", of(lambda run: run["mean_s"] * 1e3), 2),
    ("moved before, MiB", of(lambda run: run["moved_before_bytes"] * MIB), 0),
    ("moved, MiB", of(lambda run: run["moved_bytes"] * MIB), 0),
    ("beside none, %", beside_none(lambda run: run["moved_bytes"]), 1),
]


def make(folder):
    for mix, files in FILES.items():
        loads.make(folder, [(f"{mix}/{name}", size) for name, size in files], 1)


def say(bench, kind):
    """What the streams' owners say when their files are there."""
    def by_path(engine):
        with rig.Mount(engine, bench.memory) as mount:
            for mix, (stream, usage, *_) in STREAMS.items():
                words = ["--stream", str(stream), "--usage", usage, "--source", mix]
                engine.ask("hint", "path", "-r", *words, str(mount.tree / mix))
    return by_path if kind == "ext4" else None


def under(engine, mount, mix):
    stream, usage, *_ = STREAMS[mix]
    return [engine.binary, "hint", "run", "--data", str(engine.folder), "--mount", str(mount.tree), "--stream", str(stream), "--usage", usage,
            "--"]


def all_at_once(bench, engine, mount, by_run, seed):
    running = {}
    for mix, (*_, loops, threads) in STREAMS.items():
        files = FILES[mix][:1] if mix == "singlestreamwrite" else FILES[mix]
        plan = {"mix": mix, "files": files, "loops": bench.args.loops or loops, "seed": seed, "threads": threads,
                "cgroup": str(bench.cgroup)}
        running[mix] = rig.load(mount.tree / mix, plan, under(engine, mount, mix) if by_run else ())
    each = {mix: rig.ended(process) for mix, process in running.items()}
    return {"each": each, "seconds": max(load["seconds"] for load in each.values()), "ops": sum(load["ops"] for load in each.values()),
            "bytes": sum(load["read_bytes"] + load["written_bytes"] for load in each.values()),
            "cpu_seconds": sum(load["cpu_seconds"] for load in each.values())}


def run(bench):
    for repeat in range(bench.args.repeats):
        for group, (kind, options) in GROUPS.items():
            for case, by_kind in HINTS.items():
                if not bench.wanted(f"{group}, {case}"):
                    continue
                hints, by_run = by_kind[kind], case != "none" and kind == "ext4"
                image = bench.image(group, kind, VOLUME_MIB, make, options=options)
                plan = {"pools": POOLS, "volume": VOLUME_MIB, "epoch": "6s", "policy": "baseline:k=10"}
                row = {"repeat": repeat, "group": group, "case": case}
                row["moved_before_bytes"] = bench.prepare(plan, image, ["hdd", "ssd", "scm"], hints, say(bench, kind))
                with bench.mounted(plan, hints, options=options) as (engine, mount), bench.measured(engine, mount, row):
                    row["load"] = all_at_once(bench, engine, mount, by_run, 1 + repeat)
                bench.note(row)
