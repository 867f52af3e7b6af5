"""HintStor's classification of file systems (003 §4.1): none, level 1 (metadata), level 2 (sizes of files, too).

Pools, file set and memory are a hundredth of the source's in bytes, files, and so are the interval and the number of chunks that the
baseline moves; sizes of files and chunks are the source's, so classes mean the same. Of the file server's 48 files of 1 GB one is
left, of their share of the bytes.
"""

import time

import hintstor_load as loads
import hintstor_rig as rig
from hintstor_bench import EPOCH_SECONDS, MIB, beside_none, of

FACTOR = 100
VOLUME_MIB = 1632
TWO = [("ssd", "ssd-sata", 416, 0), ("hdd", "hdd-7200", 1232, 0)]
THREE = [("scm", "scm", 48, 0), ("ssd", "ssd-sata", 352, 0), ("hdd", "hdd-7200", 1232, 0)]
HEAD = "IO class id,IO class name,Eviction priority,Allocation,Pools\n"
LEVEL_1 = HEAD + "1,metadata,0,1.00,fastest\n"
RULES = ["metadata", "file_size:lt:262144", "file_size:lt:1048576", "file_size:lt:10485760", "file_size:lt:104857600",
         "file_size:lt:1073741824", "done"]
# Everything is told and classified, and nothing is wanted of it: what hints cost by themselves.
TOLD = HEAD + "".join(f"{at + 1},{rule},255,0.00\n" for at, rule in enumerate(RULES))
# Least first. Level 2 is the engine's standard table.
CASES = [("none", None), ("told", {"classes": TOLD}), ("level 1", {"classes": LEVEL_1}), ("level 2", {})]
THREADS = 16
IDLE_SECONDS = 20

COLUMNS = [
    ("mean latency, ms", of(lambda run: run["mean_s"] * 1e3), 2),
    ("beside none, %", beside_none(lambda run: run["mean_s"]), 1),
    ("a file's operation, ms", of(lambda run: run["load"]["op_mean_s"] * 1e3), 0),
    ("beside none, %", beside_none(lambda run: run["load"]["op_mean_s"]), 1),
    ("operations a second", of(lambda run: run["load"]["ops"] / run["load"]["seconds"]), 2),
    ("moved before, MiB", of(lambda run: run["moved_before_bytes"] * MIB), 0),
    ("moved, MiB", of(lambda run: run["moved_bytes"] * MIB), 0),
]


def file_set():
    return loads.source_set(1, FACTOR)


def groups(args):
    """(Group, pools, file system, mix, chunk in MiB, interval in s, cases left out, repeats)."""
    if args.idle:
        return [("two pools", TWO, kind, "nothing", 1, EPOCH_SECONDS, ("level 1",), args.repeats) for kind in ("ext4", "btrfs")]
    if args.sweep:
        sweep = [(chunk, EPOCH_SECONDS) for chunk in (4, 16)] + [(1, 6), (1, 12)]
        return [("three pools", THREE, "ext4", "fileserver", chunk, epoch, ("told",), 1) for chunk, epoch in sweep]
    two = [("two pools", TWO, "ext4", mix, 1, EPOCH_SECONDS, (), args.repeats) for mix in ("fileserver", "webserver")]
    three = (("ext4", "fileserver"), ("ext4", "webserver"), ("btrfs", "fileserver"))
    return two + [("three pools", THREE, kind, mix, 1, EPOCH_SECONDS, ("told",), args.repeats) for kind, mix in three]


def idle():
    """What a load would tell that asks for nothing."""
    time.sleep(IDLE_SECONDS)
    return {"ops": 0, "seconds": IDLE_SECONDS, "op_mean_s": 0.0, "cpu_seconds": 0.0}


def run(bench):
    files = file_set()
    loops = {"fileserver": bench.args.loops or 60, "webserver": (bench.args.loops or 60) * 2}
    for repeat in range(bench.args.repeats):
        for group, pools, kind, mix, chunk, epoch, without, repeats in groups(bench.args):
            for case, hints in CASES:
                title = f"{group}, {kind}, {mix}, chunks of {chunk} MiB, interval {epoch} s"
                if case in without or repeat >= repeats or not bench.wanted(f"{title}, {case}"):
                    continue
                image = bench.image(kind, kind, VOLUME_MIB, lambda folder: loads.make(folder, files, 1))
                plan = {"pools": pools, "volume": VOLUME_MIB, "chunk": chunk, "epoch": f"{epoch}s",
                        "policy": f"baseline:k={max(1, 1000 // FACTOR // chunk)}"}
                row = {"repeat": repeat, "group": title, "case": case}
                row["moved_before_bytes"] = bench.prepare(plan, image, [name for name, *_ in reversed(pools)], hints)
                load = {"mix": mix, "files": files, "loops": loops.get(mix), "seed": 1 + repeat, "threads": THREADS,
                        "cgroup": str(bench.cgroup)}
                with bench.mounted(plan, hints) as (engine, mount), bench.measured(engine, mount, row):
                    row["load"] = idle() if mix == "nothing" else rig.ended(rig.load(mount.tree, load))
                bench.note(row)
