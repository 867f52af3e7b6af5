"""The load of `cargo xtask bench tiers`, and what its requests took.

4 KiB at random, Zipf, reads and writes mixed, so many requests a second offered. How fio submits is a choice:

- `inline`: one thread, which lets what is under way end before it sleeps until the next request is due: a miss is followed by
  a burst of what was due meanwhile;
- `offload`: a thread a request, each submitted when it is due, whatever is under way; fio's nbd engine cannot, so the guest's
  kernel is the client then.

So is what is measured: requests that go on where the warm-up ended (`fresh`), some of them to blocks that nothing has touched
before, which no cache can have; or the first requests of the warm-up again (`repeated`), all of them to blocks that were touched.

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


def log_of(folder, name, start_ms):
    """fio's log of each request as (end, latency in ns, whether it wrote, offset); the measured time begins at zero."""
    lines = (folder / f"{name}_lat.log").read_text().splitlines()
    fields = [tuple(map(int, line.split(",")[:5])) for line in lines]
    return [(start_ms + at_ms, nanoseconds, direction, offset) for at_ms, nanoseconds, direction, _, offset in fields]


def measured(requests, end_ms):
    """What the requests that ended in the measured time took, in µs, sorted, of each direction; and the share of its reads whose
    block was read or written before, which is what an endless cache would hit.

    fio 3.33 itself measures nothing when a warm-up is longer than what is measured.
    """
    taken = {"read": [], "write": []}
    seen, seen_before = set(), 0
    for at_ms, nanoseconds, direction, offset in sorted(requests, key=lambda request: request[0]):
        if 0 <= at_ms < end_ms:
            taken["write" if direction else "read"].append(nanoseconds / 1e3)
            seen_before += not direction and offset in seen
        seen.add(offset)
    if not all(taken.values()):
        raise RuntimeError("fio ended nothing in the measured time")
    return {way: sorted(times) for way, times in taken.items()}, seen_before / len(taken["read"])


def figures(times, seconds):
    def below(part):
        return times[min(int(len(times) * part), len(times) - 1)]

    return {"iops": len(times) / seconds, "mean_us": sum(times) / len(times), "p50_us": below(0.5), "p99_us": below(0.99),
            "max_us": times[-1]}


def submit(run, target, folder, name, seconds):
    reads = run["iops"] * run["read_percent"] // 100
    fio([*target, "--rw=randrw", "--bs=4k", f"--rwmixread={run['read_percent']}", f"--size={run['volume_mib']}m",
         f"--rate_iops={reads},{run['iops'] - reads}", f"--iodepth={run['depth']}", f"--io_submit_mode={run['submit']}",
         f"--random_distribution=zipf:{run['zipf']}", "--norandommap", "--allrandrepeat=1", f"--randseed={run['seed']}",
         "--time_based", f"--runtime={seconds}", f"--write_lat_log={name}", "--per_job_logs=0", "--log_offset=1"], folder)


def fresh(run, target, hits, folder):
    """One run of fio, of which the end is measured: (its requests, what hits were before)."""
    before = []
    watch = threading.Timer(run["warmup"], lambda: before.append(hits()))
    watch.start()
    try:
        submit(run, target, folder, "each", run["warmup"] + run["seconds"])
    finally:
        watch.cancel()
        watch.join()
    return log_of(folder, "each", -run["warmup"] * 1000), before[0]


def repeated(run, target, hits, folder):
    """Two runs of fio with the same seed, of which the second is measured: (their requests, what hits were before)."""
    submit(run, target, folder, "warm", run["warmup"])
    before = hits()
    submit(run, target, folder, "each", run["seconds"])
    long_ago = -2000 * run["warmup"] - 1
    return log_of(folder, "warm", long_ago) + log_of(folder, "each", 0), before


def load(run, target, hits, folder):
    """Latency of each direction over the measured time, and, where `hits` counts them, what share of its reads were hits."""
    count = hits or (lambda: None)
    requests, before = (fresh if run["requests"] == "fresh" else repeated)(run, target, count, folder)
    after = count()
    taken, endless = measured(requests, run["seconds"] * 1000)
    result = {way: figures(times, run["seconds"]) for way, times in taken.items()}
    result["hit_share_of_an_endless_cache"] = endless
    if hits:
        result["hit_share"] = (after[0] - before[0]) / max(after[1] - before[1], 1)
    return result
