"""The load of `cargo xtask bench tiers`, and what its requests took.

4 KiB at random, Zipf, reads and writes mixed, so many requests a second offered. How fio submits is a choice:

- `inline`: one thread, which lets what is under way end before it sleeps until the next request is due: a miss is followed by a burst
  of what was due meanwhile;
- `offload`: a thread a request, each submitted when it is due, whatever is under way.

A latency counts from submission to the end.
"""

import json
import subprocess
import threading


def fio(arguments, folder):
    done = subprocess.run(["fio", "--name=load", "--output-format=json", *arguments], capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"fio failed: {done.stderr or done.stdout}")
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]


def latencies(log, run):
    """Of each direction, what the requests that ended in the measured time took, in µs, sorted.

    From fio's log of each request: fio 3.33 measures nothing when a warm-up is longer than what is measured.
    """
    begin, end = run["warmup"] * 1000, (run["warmup"] + run["seconds"]) * 1000
    taken = {"read": [], "write": []}
    for line in log.read_text().splitlines():
        at_ms, nanoseconds, direction = map(int, line.split(",")[:3])
        if begin <= at_ms < end:
            taken["write" if direction else "read"].append(nanoseconds / 1e3)
    if not all(taken.values()):
        raise RuntimeError("fio ended nothing in the measured time")
    return {way: sorted(times) for way, times in taken.items()}


def figures(times, seconds):
    def below(part):
        return times[min(int(len(times) * part), len(times) - 1)]

    return {"iops": len(times) / seconds, "mean_us": sum(times) / len(times), "p50_us": below(0.5), "p99_us": below(0.99),
            "max_us": times[-1]}


def load(run, target, hits, folder):
    """Latency of each direction over the measured time, and, where `hits` counts them, what share of its reads were hits."""
    reads = run["iops"] * run["read_percent"] // 100
    before = []
    watch = threading.Timer(run["warmup"], lambda: before.append(hits() if hits else None))
    watch.start()
    try:
        fio([*target, "--rw=randrw", "--bs=4k", f"--rwmixread={run['read_percent']}", f"--size={run['volume_mib']}m",
             f"--rate_iops={reads},{run['iops'] - reads}", f"--iodepth={run['depth']}", f"--io_submit_mode={run['submit']}",
             f"--random_distribution=zipf:{run['zipf']}", "--norandommap", "--allrandrepeat=1", f"--randseed={run['seed']}",
             "--time_based", f"--runtime={run['warmup'] + run['seconds']}", "--write_lat_log=each", "--per_job_logs=0"], folder)
    finally:
        watch.cancel()
        watch.join()
    result = {way: figures(times, run["seconds"]) for way, times in latencies(folder / "each_lat.log", run).items()}
    if hits:
        after = hits()
        result["hit_share"] = (after[0] - before[0][0]) / max(after[1] - before[0][1], 1)
    return result
