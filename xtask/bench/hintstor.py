"""HintStor's four experiments on the live engine: emulated devices, a mounted file system, scaled down.

    hintstor.py hintstor BINARY KEPT fs|stream|cloud|priority [--binary PATH] [--repeats N] [--only WORD,…] [--sweep]

What is asked, of which pools, and how it is scaled stands in experiments/hintstor-NAME/live.md. For each case of each repeat:

1. An image of the file system, the same for all cases, is copied to a volume on new pools that are as fast as memory. Chunks are laid
   out by address, as dm-linear does it, which is the source's volume without hints (003 §4.1).
2. With hints the engine then moves what they want moved, until nothing moves any more: the source's initial placement.
3. The engine starts anew with its pools slowed to devices. The volume is mounted anew, and the load runs.

Cases of a repeat run one after the other before the next repeat begins; operations are the same in each of them. Latency is the
engine's own, of the file system's reads and writes; processor time is the process's. Prints JSON; its `table` is what people read.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import hintstor_bench
import hintstor_cloud
import hintstor_fs
import hintstor_priority
import hintstor_rig as rig
import hintstor_stream

EXPERIMENTS = {"fs": hintstor_fs, "stream": hintstor_stream, "cloud": hintstor_cloud, "priority": hintstor_priority}
NEEDED = ["nbdfuse", "nbdcopy", "losetup", "mkfs.ext4", "mkfs.btrfs", "curl", "rsync"]


def stop(number, _):
    """Ends, and cleans up; once, for `timeout` sends its signal twice."""
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subcommand", choices=["hintstor"])
    parser.add_argument("built", help="the engine")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("what", choices=sorted(EXPERIMENTS))
    parser.add_argument("--binary", help="an engine to take instead")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="words that a case's title must all have")
    parser.add_argument("--loops", type=int, default=0, help="length of the load, for trials")
    parser.add_argument("--sweep", action="store_true", help="fs: chunk sizes and intervals, once each")
    parser.add_argument("--idle", action="store_true", help="fs: what hints cost while nothing is asked")
    parser.add_argument("--whole", action="store_true", help="priority: rsync reads the foreground's files, too")
    parser.add_argument("--record", action="store_true", help="keep a recording of each case's requests")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    args.kept = pathlib.Path(args.kept).resolve()
    return args


def main():
    args = arguments()
    if os.geteuid():
        sys.exit("needs root: it mounts file systems")
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        sys.exit(f"{', '.join(missing)}: not here; install libnbd-bin, nbdfuse, e2fsprogs, btrfs-progs, util-linux, curl and rsync")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    place = pathlib.Path(tempfile.mkdtemp(prefix="hintstor-", dir=args.kept))
    memory = pathlib.Path(tempfile.mkdtemp(prefix="hintstor-", dir="/dev/shm"))
    experiment = EXPERIMENTS[args.what]
    try:
        bench = hintstor_bench.Bench(args, place, memory)
        with rig.bounded_cache(getattr(experiment, "CACHE_MIB", hintstor_bench.CACHE_MIB)) as bench.cgroup:
            experiment.run(bench)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    print(json.dumps({"rows": bench.rows, "table": hintstor_bench.table(bench.rows, experiment.COLUMNS)}))


main()
