"""HintStor's cloud prefetch (003 §4.3): a directory is copied out of a volume whose greater part is far away.

A quarter of the source in bytes: SSD 256 MiB, disk 2560 MiB, far pool 10 GiB; two files of 256 MiB and a hundred of 256 KiB.

- `none`: chunks by address, the far pool first: ext4 puts large files at the lowest addresses of a new volume, so that with the
  local pools first nothing of the directory would be far;
- `level 2`: metadata on the SSD, small files on the disk, large ones far;
- `prefetch`: the same, and before the copy begins (the source: as the files are created) one large file is prefetched at 1 Gbps, both
  at 200 Mbps; `prefetch beside`: it is asked for when the copy begins.
"""

import shutil
import subprocess
import time

import hintstor_load as loads
import hintstor_rig as rig
from hintstor_bench import MIB, beside_none, of

LARGE_MIB, SMALL_KIB, SMALL = 256, 256, 100
VOLUME_MIB = 12_800
HASH_SEED = "00000001-0000-4000-8000-000000000000"  # decides in which group ext4 puts the directory
CLASSES = ("IO class id,IO class name,Eviction priority,Allocation,Pools\n1,metadata,0,1.00,fastest\n"
           "2,file_size:lt:10485760,1,0.00,between\n3,done,200,0.00,slowest\n")
LINKS = {"1 Gbps": ("s3-1gbps", 1), "200 Mbps": ("s3-200mbps", 2)}  # and how many large files are prefetched
CASES = ["none", "level 2", "prefetch", "prefetch beside"]

COLUMNS = [
    ("copy, s", of(lambda run: run["load"]["seconds"]), 2),
    ("beside none, %", beside_none(lambda run: run["load"]["seconds"]), 1),
    ("read from far by the copy, MiB", of(lambda run: run["cloud"]["read_bytes"] * MIB), 0),
    ("fetched meanwhile, MiB", of(lambda run: run["fetched_bytes"] * MIB), 0),
    ("fetched before, MiB", of(lambda run: run["fetched_before_bytes"] * MIB), 0),
    ("mean latency, ms", of(lambda run: run["mean_s"] * 1e3), 2),
    ("far before, MiB", of(lambda run: run["far_bytes"] * MIB), 0),
]


def make(folder):
    large = [(f"files/large{at}", LARGE_MIB << 20) for at in range(2)]
    loads.make(folder, large + [(f"files/small{at:03}", SMALL_KIB << 10) for at in range(SMALL)], 1)


def fetch(engine, mount, count):
    """Asks for the large files."""
    files = [str(mount.tree / "files" / f"large{at}") for at in range(count)]
    return engine.ask("hint", "path", "--prefetch", "--source", "copy", *files)


def rest(engine):
    """Waits until nothing is fetched any more; the chunks that are."""
    before, since = None, time.monotonic()
    while time.monotonic() - since < 2:
        status = engine.ask("status")
        now = sum(pool["chunks_prefetched"] for pool in status["pools"])
        if now != before or status["operations_pending"]:
            before, since = now, time.monotonic()
        time.sleep(0.1)
    return before


def moved_out(engine):
    return engine.figures()["metrics"]['pool_moved_out_bytes_total{pool="cloud"}']


def copy(bench, mount):
    out = bench.memory / "out"
    shutil.rmtree(out, ignore_errors=True)
    start = time.monotonic()
    process = subprocess.Popen(["cp", "-r", str(mount.tree / "files"), str(out)])
    pid_used = 0.0
    while process.poll() is None:
        time.sleep(0.01)
        try:
            pid_used = rig.cpu_seconds(process.pid)
        except OSError:
            break
    if process.wait():
        raise RuntimeError("cp failed")
    seconds = time.monotonic() - start
    shutil.rmtree(out)
    return {"seconds": seconds, "ops": 2 + SMALL, "cpu_seconds": pid_used}


def run(bench):
    image = bench.image("cloud", "ext4", VOLUME_MIB, make, hash_seed=HASH_SEED)
    for repeat in range(bench.args.repeats):
        for link, (profile, count) in LINKS.items():
            pools = [("ssd", "ssd-sata", 256, 0), ("hdd", "hdd-7200", 2560, LARGE_MIB * count + 8), ("cloud", profile, 10_240, 0)]
            plan = {"pools": pools, "volume": VOLUME_MIB, "epoch": "3s", "policy": "baseline:k=10"}
            for case in CASES:
                if not bench.wanted(f"{link}, {case}"):
                    continue
                hints = None if case == "none" else {"classes": CLASSES}
                row = {"repeat": repeat, "group": link, "case": case}
                row["moved_before_bytes"] = bench.prepare(plan, image, ["cloud", "hdd", "ssd"], hints)
                with bench.mounted(plan, hints) as (engine, mount):
                    row["far_bytes"] = [pool["chunks_used"] for pool in engine.ask("status")["pools"]][2] << 20
                    before = moved_out(engine)
                    if case == "prefetch":
                        fetch(engine, mount, count)
                        row["fetched_chunks"] = rest(engine)
                    row["fetched_before_bytes"] = moved_out(engine) - before
                    with bench.measured(engine, mount, row):
                        if case == "prefetch beside":
                            fetch(engine, mount, count)
                        row["load"] = copy(bench, mount)
                    row["fetched_bytes"] = moved_out(engine) - before - row["fetched_before_bytes"]
                bench.note(row)
