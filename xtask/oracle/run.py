"""Misses of libCacheSim's policies on a stream of unit-size objects.

`run.py STREAM POLICY[,POLICY...] SIZE[,SIZE...]`, with the names of our policies; sizes in objects.
Called by `cargo xtask oracle`, which makes the environment and the oracleGeneral file. Prints one JSON
object: requests, and for each policy its misses in the order of the sizes. libCacheSim is under
the GPL: it is used as a program of its own here, and nothing of it is part of this project.
"""

import json
import os
import sys

import libcachesim as lcs

RECORD_BYTES = 24

POLICIES = {
    "arc": lcs.ARC,
    "belady": lcs.Belady,
    "clock": lcs.Clock,
    "fifo": lcs.FIFO,
    "lirs": lcs.LIRS,
    "lru": lcs.LRU,
    "2q": lcs.TwoQ,
    "s3-fifo": lcs.S3FIFO,
    "sieve": lcs.Sieve,
    "w-tiny-lfu": lcs.WTinyLFU,
}


def misses(stream, policy, size, requests):
    reader = lcs.TraceReader(
        stream, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
    ratio, _ = POLICIES[policy](size, reader=reader).process_trace(reader)
    return round(ratio * requests)


def main():
    stream, policies, sizes = sys.argv[1:]
    requests = os.path.getsize(stream) // RECORD_BYTES
    found = {
        policy: [misses(stream, policy, int(size), requests) for size in sizes.split(",")]
        for policy in policies.split(",")
    }
    json.dump({"requests": requests, "misses": found}, sys.stdout)


if __name__ == "__main__":
    main()
