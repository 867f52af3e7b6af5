"""Replay speed of `thermocline lab cache` and of libCacheSim, side by side in one run.

Called by `cargo xtask bench caches` and `cargo xtask bench sweep`, which makes the environment. Both sides
replay the same oracleGeneral file, one policy and one size at a time, on one thread, in turn: a Zipf load, or with
`--pages TRACE` a block trace read 512 B page by page, `--times K` over. What is compared is
requests per second of CPU (user and system). Ours counts the whole process: start, parsing, numbering
the objects, replay and output. libCacheSim's counts the call that opens and replays the trace, without the
start of Python. It runs with the hash table it has by default (2^24 buckets, 128 MiB) and with one that fits what
is cached; a ratio is told beside each. `--suite FOLDER` takes six loads in turn: the traces OLTP, P3 and P6 of the
ARC paper from that folder, page by page, and Zipf loads of 20 thousand, 300 thousand and 4 million objects. Prints
one JSON document.
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import libcachesim as lcs
import numpy as np

RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
PAGE = 512
POLICIES = {
    "lru": lcs.LRU,
    "fifo": lcs.FIFO,
    "clock": lcs.Clock,
    "sieve": lcs.Sieve,
    "s3-fifo": lcs.S3FIFO,
    "arc": lcs.ARC,
    "lirs": lcs.LIRS,
    "w-tiny-lfu": lcs.WTinyLFU,
    "2q": lcs.TwoQ,
    # libCacheSim has no Merlin: its S3-FIFO, the nearest relative, stands beside ours.
    "merlin": lcs.S3FIFO,
}
# The power of two of its table's buckets unless told otherwise.
DEFAULT_TABLE = 24
# A suite: traces by file, made loads by their objects.
TRACES = {"OLTP": ("arc_OLTP.lis.zst", 20), "P3": ("arc_P3.lis.zst", 4), "P6": ("arc_P6.lis.zst", 1)}
MADE = {"small": 20_000, "middle": 300_000, "large": 4_000_000}


def make_zipf(path, requests, objects, alpha, seed):
    """An oracleGeneral file of Zipf(alpha) over `objects`, scattered ids, one request a microsecond."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, objects + 1, dtype=np.float64) ** -alpha
    cdf = np.cumsum(weights)
    ranks = np.searchsorted(cdf, rng.random(requests) * cdf[-1]).astype(np.uint64)
    names = (rng.permutation(objects).astype(np.uint64) + 1) * 7919
    out = np.zeros(requests, dtype=RECORD)
    out["time"] = (np.arange(requests) // 1_000_000).astype(np.uint32)
    out["id"] = names[ranks]
    out["size"] = 4096
    out["next"] = -1
    out.tofile(path)


def make_pages(path, binary, trace, times):
    """An oracleGeneral file of every page that a block trace's reads and writes touch, `times` over."""
    table = path + ".csv"
    subprocess.run([binary, "trace", "convert", trace, "--output", table, "--force"], check=True,
                   stderr=subprocess.DEVNULL)
    with open(table, newline="") as rows:
        touched = [(int(row["offset_bytes"]), int(row["length_bytes"])) for row in csv.DictReader(rows)
                   if row["op"] in ("read", "write")]
    os.remove(table)
    pages = np.concatenate([np.arange(offset // PAGE, (offset + length - 1) // PAGE + 1, dtype=np.uint64)
                            for offset, length in touched])
    out = np.zeros(len(pages) * times, dtype=RECORD)
    out["time"] = (np.arange(len(out)) // 1_000_000).astype(np.uint32)
    out["id"] = np.tile(pages, times)
    out["size"], out["next"] = PAGE, -1
    out.tofile(path)


def run_ours(binary, trace, policy, sizes, threads):
    """CPU seconds, wall seconds and rows of one whole process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [binary, "lab", "cache", trace, "--format", "oracle-general", "--objects", "--json",
         "--threads", str(threads), "--policy", policy,
         "--size", ",".join(f"{size}obj" for size in sizes)],
        check=True, capture_output=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return cpu, wall, json.loads(done.stdout)["rows"]


def run_theirs(trace, policy, size, table):
    start = time.process_time()
    reader = lcs.TraceReader(trace, lcs.TraceType.ORACLE_GENERAL_TRACE,
                             lcs.ReaderInitParam(ignore_obj_size=True))
    miss, _ = POLICIES[policy](size, hashpower=table).process_trace(reader)
    return time.process_time() - start, miss


def fitting(size):
    """The least power of two with two buckets at least for each object cached."""
    return max(8, (2 * size - 1).bit_length())


def spread(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def caches(options, trace, requests, distinct):
    """Every policy at 1 % and 10 % of the objects, in turn with libCacheSim's at both tables."""
    rows = []
    lines = ["| policy | objects | ours, Mreq/CPU-s | libCacheSim, default table | ratio | fitting table | ratio | "
             "misses equal |",
             "|---|---:|---:|---:|---:|---:|---:|---|"]
    for policy in options.policies.split(","):
        for share in (0.01, 0.1):
            size = max(int(distinct * share), 1)
            tables = {"default": DEFAULT_TABLE, "fitting": fitting(size)}
            mine, theirs = [], {name: [] for name in tables}
            for _ in range(options.repeats):
                cpu, _, ours = run_ours(options.binary, trace, policy, [size], 1)
                mine.append(cpu)
                for name, table in tables.items():
                    cpu, rival_miss = run_theirs(trace, policy, size, table)
                    theirs[name].append(cpu)
            miss = ours[0]["line_misses"] / requests
            same = abs(miss - rival_miss) * requests < 0.5
            ratios = {name: [other / own for own, other in zip(mine, theirs[name])] for name in tables}
            rows.append({"policy": policy, "objects": size, "ours_cpu_s": mine, "tables": tables,
                         "libcachesim_cpu_s": theirs, "ratios": ratios, "miss_ratio": miss,
                         "libcachesim_miss_ratio": rival_miss})
            speeds = " | ".join(f"{spread([requests / x / 1e6 for x in theirs[name]])} | {spread(ratios[name])}"
                                for name in tables)
            lines.append(f"| {policy} | {size} | {spread([requests / x / 1e6 for x in mine])} | {speeds} | "
                         f"{'yes' if same else f'{miss:.6f} / {rival_miss:.6f}'} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return rows, lines


def sweep(options, trace, requests, distinct):
    """Sixteen sizes of LRU against one; sixteen sizes of S3-FIFO on two threads against one."""
    sizes = [int(distinct * 0.002 * 1.45 ** i) for i in range(16)]
    one, all_sizes, single, double = [], [], [], []
    for _ in range(options.repeats):
        one.append(run_ours(options.binary, trace, "lru", [sizes[8]], 1)[0])
        all_sizes.append(run_ours(options.binary, trace, "lru", sizes, 1)[0])
        single.append(run_ours(options.binary, trace, "s3-fifo", sizes, 1)[1])
        double.append(run_ours(options.binary, trace, "s3-fifo", sizes, 2)[1])
    lines = ["| what | seconds |", "|---|---:|",
             f"| LRU, one size, CPU | {spread(one)} |",
             f"| LRU, sixteen sizes, CPU | {spread(all_sizes)} |",
             f"| ratio | {spread([x / y for x, y in zip(all_sizes, one)])} |",
             f"| S3-FIFO, sixteen sizes, one thread, wall | {spread(single)} |",
             f"| S3-FIFO, sixteen sizes, two threads, wall | {spread(double)} |",
             f"| speed-up | {spread([x / y for x, y in zip(single, double)])} |"]
    rows = {"sizes": sizes, "lru_one_cpu_s": one, "lru_all_cpu_s": all_sizes,
            "s3_fifo_one_thread_wall_s": single, "s3_fifo_two_threads_wall_s": double}
    return rows, lines


def pages_of(options, trace, times):
    """The file with a block trace page by page, made when it is not there."""
    name = os.path.basename(trace).split(".")[0]
    path = os.path.join(options.folder, f"{name}-pages-{times}.oracleGeneral")
    if not os.path.exists(path):
        make_pages(path + ".part", options.binary, trace, times)
        os.rename(path + ".part", path)
    return path


def zipf_of(options, objects):
    """The file with a Zipf load, made when it is not there."""
    path = os.path.join(options.folder, f"zipf-{options.requests}-{objects}.oracleGeneral")
    if not os.path.exists(path):
        make_zipf(path + ".part", options.requests, objects, 1.0, 1)
        os.rename(path + ".part", path)
    return path


def loads(options):
    """Names and files of what is replayed."""
    if options.suite:
        for name, (trace, times) in TRACES.items():
            yield name, pages_of(options, os.path.join(options.suite, trace), times)
        for name, objects in MADE.items():
            yield f"Zipf, {name}", zipf_of(options, objects)
    elif options.pages:
        yield os.path.basename(options.pages), pages_of(options, options.pages, options.times)
    elif options.trace:
        yield os.path.basename(options.trace), options.trace
    else:
        yield "Zipf", zipf_of(options, options.objects)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("what", choices=["caches", "sweep"])
    arguments.add_argument("binary")
    arguments.add_argument("folder")
    arguments.add_argument("--requests", type=int, default=20_000_000)
    arguments.add_argument("--objects", type=int, default=4_000_000)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--policies", default=",".join(POLICIES))
    arguments.add_argument("--trace", help="an oracleGeneral file instead of the Zipf one")
    arguments.add_argument("--pages", help="a block trace, page by page, instead of the Zipf one")
    arguments.add_argument("--times", type=int, default=1, help="replay the block trace so often")
    arguments.add_argument("--suite", help="six loads, three of them traces in this folder")
    options = arguments.parse_args()
    results, text = [], ""
    for name, trace in loads(options):
        ids = np.fromfile(trace, dtype=RECORD)["id"]
        requests, distinct = len(ids), len(np.unique(ids))
        del ids
        head = (f"{name}: {requests} requests, {distinct} objects, {options.repeats} repeats, "
                "median [min-max]")
        print(head, file=sys.stderr, flush=True)
        rows, lines = (caches if options.what == "caches" else sweep)(options, trace, requests, distinct)
        results.append({"load": name, "trace": trace, "requests": requests, "distinct": distinct,
                        "repeats": options.repeats, "rows": rows})
        text += f"{head}\n\n" + "\n".join(lines) + "\n\n"
    json.dump({"loads": results, "table": text}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
