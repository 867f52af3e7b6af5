"""HintStor's task priority (003 §4.4): rsync goes over a volume, again and again, beside a foreground load.

SSD and disk, a seventieth of the source's bytes, with the files of `fs` up to 50 MiB. rsync compares files by checksum with a copy
elsewhere and brings that up to date; the foreground works in half of the directories.

- `none`: chunks by address, and the baseline; `level 2`: placed by sizes of files, as in `fs`, and then not surveyed any more, because a
  recording has the surveys' requests, too;
- `priority`: the same, with `thermocline hint run --background` around rsync.

rsync goes over the other half of the directories; or with `--whole` over all, and plain `thermocline hint run` is around the foreground,
so that nobody lets its files wait. The page cache is small, so that rsync reads.

A volume cannot tell whose request it answers, but rsync only reads, and only files that nobody writes: of the engine's recording the
foreground's requests are those that are elsewhere. With `--whole` they cannot be told apart.
"""

import csv
import os
import re
import signal
import statistics
import subprocess
import time

import hintstor_fs
import hintstor_load as loads
import hintstor_rig as rig
from hintstor_bench import MIB, beside_none, of

POOLS = [("ssd", "ssd-sata", 144, 0), ("hdd", "hdd-7200", 736, 0)]
VOLUME_MIB = 864
LARGEST = 50 << 20
CACHE_MIB = 192
BACKGROUND_MS = "2000"
UNSURVEYED = {"survey": False}
# (Name, hints while it is placed, hints while it runs, whether by `thermocline hint run`).
CASES = [("none", None, None, False), ("level 2", {}, UNSURVEYED, False), ("priority", {}, UNSURVEYED, True)]
THREADS = 8

COLUMNS = [
    ("foreground's request, ms", of(lambda run: run["foreground"]["mean_s"] * 1e3), 2),
    ("beside none, %", beside_none(lambda run: run["foreground"]["mean_s"]), 1),
    ("rsync's request, ms", of(lambda run: run["background"]["mean_s"] * 1e3), 0),
    ("rsync read, MiB/s", of(lambda run: run["background"]["bytes"] * MIB / run["seconds"]), 1),
    ("a file's operation, ms", of(lambda run: run["load"]["op_mean_s"] * 1e3), 0),
    ("beside none, %", beside_none(lambda run: run["load"]["op_mean_s"]), 1),
    ("operations a second", of(lambda run: run["load"]["ops"] / run["load"]["seconds"]), 2),
    ("volume's mean latency, ms", of(lambda run: run["mean_s"] * 1e3), 2),
    ("requests that waited, %", of(lambda run: run["hints"]["requests_waited"] / (run["reads"] + run["writes"]) * 100), 1),
    ("moved, MiB", of(lambda run: run["moved_bytes"] * MIB), 0),
    ("rsync's CPU, %", of(lambda run: run["rsync_cpu"] / run["seconds"] * 100), 1),
]


class Rsync:
    """rsync, over and over, in the load's control group; ends with all its processes when left."""

    def __init__(self, tree, copy, cgroup, whole, words):
        sources = '"$0/"' if whole else '"$0"/d1?'
        script = f'echo $$ > {cgroup}/cgroup.procs; while :; do rsync -a --checksum --delete {sources} "$1/" 2>/dev/null || true; done'
        self.process = subprocess.Popen([*words, "sh", "-c", script, str(tree), str(copy)], start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def cpu_seconds(self):
        """Of what runs now of its session; passes that have ended are in their shell's account of its children."""
        total = 0.0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return total

    def __exit__(self, *_):
        # `thermocline hint run` passes the signal on, and withdraws its hints.
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for _ in range(100):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            time.sleep(0.05)


def extents(folders):
    """Bytes of the volume that hold the files below."""
    told = rig.shell(f"find {folders} -type f -print0 | xargs -0 filefrag -v -b1")
    found = re.findall(r"^\s*\d+:\s*\d+\.\.\s*\d+:\s*(\d+)\.\.\s*(\d+):", told, re.M)
    return sorted((int(start), int(end) + 1) for start, end in found)


def told_apart(bench, record, ranges, since, until):
    """(Foreground, background): requests between two moments of the engine, by whether they are in `ranges`."""
    text = record.with_suffix(".csv")
    rig.shell(f"{bench.args.binary} trace convert {record} -o {text}")
    parts = {False: [], True: []}
    with open(text) as lines:
        for row in csv.DictReader(lines):
            if row["op"] in ("read", "write") and since <= int(row["time_ns"]) / 1e9 <= until:
                start = int(row["offset_bytes"])
                within = row["op"] == "read" and any(first <= start < end for first, end in ranges)
                parts[within].append((int(row["response_ns"]) / 1e9, int(row["length_bytes"])))
    text.unlink()
    record.unlink()
    return [{"requests": len(part), "mean_s": statistics.fmean(took for took, _ in part) if part else 0.0,
             "bytes": sum(length for _, length in part)} for part in (parts[False], parts[True])]


def copied(bench, image):
    """A copy of the image's files, as rsync left it after a whole pass."""
    copy, tree = bench.place / "copy", bench.place / "made"
    copy.mkdir(exist_ok=True)
    rig.shell(f"mount -o loop,ro,noload {image} {tree}")
    try:
        rig.shell(f"rsync -a --delete {tree}/ {copy}/")
    finally:
        rig.shell(f"umount {tree}")
    return copy


def run(bench):
    files = [file for file in hintstor_fs.file_set() if file[1] <= LARGEST]
    ours = [file for file in files if file[0] < "d10"]
    loops = {"fileserver": bench.args.loops or 90, "webserver": (bench.args.loops or 90) * 3}
    for repeat in range(bench.args.repeats):
        for mix in ("fileserver", "webserver"):
            for case, placed, hints, by_run in CASES:
                if not bench.wanted(f"{mix} {case}"):
                    continue
                image = bench.image("ext4", "ext4", VOLUME_MIB, lambda folder: loads.make(folder, files, 1))
                plan = {"pools": POOLS, "volume": VOLUME_MIB, "epoch": "3s", "policy": "baseline:k=14"}
                row = {"repeat": repeat, "group": mix, "case": case}
                row["moved_before_bytes"] = bench.prepare(plan, image, ["hdd", "ssd"], placed)
                copy = copied(bench, image)
                load = {"mix": mix, "files": ours, "loops": loops[mix], "seed": 1 + repeat, "threads": THREADS, "cgroup": str(bench.cgroup)}
                record = bench.args.kept / f"hintstor-priority-{len(bench.rows)}.tcr"
                with bench.mounted(plan, hints, record=record) as (engine, mount):
                    ranges = extents(f"{mount.tree}/d1?")
                    words = [bench.args.binary, "hint", "run", "--data", str(engine.folder), "--mount", str(mount.tree)] if by_run else []
                    background = [*words, "--background", BACKGROUND_MS, "--"] if by_run else []
                    plain = [*words, "--"] if by_run and bench.args.whole else []
                    with Rsync(mount.tree, copy, bench.cgroup, bench.args.whole, background) as rsync:
                        time.sleep(2)  # It is at work.
                        since = engine.ask("status")["uptime_seconds"]
                        with bench.measured(engine, mount, row):
                            row["load"] = rig.ended(rig.load(mount.tree, load, plain))
                            row["rsync_cpu"] = rsync.cpu_seconds()
                        until = engine.ask("status")["uptime_seconds"]
                row["foreground"], row["background"] = told_apart(bench, record, ranges, since, until)
                bench.note(row)
