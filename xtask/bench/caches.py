"""Replay speed of `thermocline lab cache` and of libCacheSim, side by side in one run.

Called by `cargo xtask bench caches`, which makes the environment. Both sides replay the same
oracleGeneral file, one policy and one size at a time, on one thread, in turn; what is compared is
requests per second of CPU (user and system). Ours counts the whole process: start, parsing, numbering
the objects, replay and output. libCacheSim's counts the call that opens and replays the trace, without the
start of Python. Prints one JSON document.
"""

import argparse
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import time

import libcachesim as lcs
import numpy as np

POLICIES = {
    "lru": lambda n: lcs.LRU(n),
    "fifo": lambda n: lcs.FIFO(n),
    "clock": lambda n: lcs.Clock(n),
    "sieve": lambda n: lcs.Sieve(n),
    "s3-fifo": lambda n: lcs.S3FIFO(n),
    "arc": lambda n: lcs.ARC(n),
    "lirs": lambda n: lcs.LIRS(n),
    "w-tiny-lfu": lambda n: lcs.WTinyLFU(n),
    "2q": lambda n: lcs.TwoQ(n),
    "merlin": lambda n: lcs.S3FIFO(n),  # libCacheSim has no Merlin: its S3-FIFO stands beside it.
}


def make_zipf(path, requests, objects, alpha, seed):
    """An oracleGeneral file of Zipf(alpha) over `objects`, scattered ids, one request a microsecond."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, objects + 1, dtype=np.float64) ** -alpha
    cdf = np.cumsum(weights)
    ranks = np.searchsorted(cdf, rng.random(requests) * cdf[-1]).astype(np.uint64)
    names = (rng.permutation(objects).astype(np.uint64) + 1) * 7919
    record = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    out = np.zeros(requests, dtype=record)
    out["time"] = (np.arange(requests) // 1_000_000).astype(np.uint32)
    out["id"] = names[ranks]
    out["size"] = 4096
    out["next"] = -1
    out.tofile(path)


def ours(binary, trace, policy, size):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [binary, "lab", "cache", trace, "--format", "oracle-general", "--objects", "--json",
         "--threads", "1", "--policy", policy, "--size", f"{size}obj"],
        check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    row = json.loads(done.stdout)["rows"][0]
    return cpu, row["line_misses"] / row["reads"]["requests"], row["replay_s"]


def theirs(trace, policy, size):
    start = time.process_time()
    reader = lcs.TraceReader(trace, lcs.TraceType.ORACLE_GENERAL_TRACE,
                             lcs.ReaderInitParam(ignore_obj_size=True))
    miss, _ = POLICIES[policy](size).process_trace(reader)
    return time.process_time() - start, miss


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("folder")
    arguments.add_argument("--requests", type=int, default=20_000_000)
    arguments.add_argument("--objects", type=int, default=4_000_000)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--policies", default=",".join(POLICIES))
    arguments.add_argument("--trace", help="an oracleGeneral file instead of the Zipf one")
    options = arguments.parse_args()
    trace = options.trace
    if trace is None:
        trace = os.path.join(options.folder, f"zipf-{options.requests}-{options.objects}.oracleGeneral")
        if not os.path.exists(trace):
            make_zipf(trace + ".part", options.requests, options.objects, 1.0, 1)
            os.rename(trace + ".part", trace)
    ids = np.fromfile(trace, dtype=np.dtype([("t", "<u4"), ("id", "<u8"), ("s", "<u4"), ("n", "<i8")]))["id"]
    requests, distinct = len(ids), len(np.unique(ids))
    del ids
    rows = []
    for policy in options.policies.split(","):
        for share in (0.01, 0.1):
            size = int(distinct * share)
            a, b, replays = [], [], []
            for _ in range(options.repeats):
                cpu, miss, replay = ours(options.binary, trace, policy, size)
                a.append(cpu)
                replays.append(replay)
                cpu, rival_miss = theirs(trace, policy, size)
                b.append(cpu)
            rows.append({
                "policy": policy, "objects": size,
                "ours_cpu_s": a, "ours_replay_s": replays, "libcachesim_cpu_s": b,
                "ours_mreq_per_cpu_s": requests / statistics.median(a) / 1e6,
                "libcachesim_mreq_per_cpu_s": requests / statistics.median(b) / 1e6,
                "ratio": statistics.median(y / x for x, y in zip(a, b)),
                "miss_ratio": miss, "libcachesim_miss_ratio": rival_miss,
            })
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    json.dump({"trace": trace, "requests": requests, "distinct": distinct, "repeats": options.repeats,
               "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
