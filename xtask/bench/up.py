"""Mean latency of `thermocline up`, ten seconds by ten seconds, with nothing chosen and with nothing moved.

    up.py up BINARY KEPT [--seconds N] [--rate N] [--repeats N] [--binary PATH]

1. `thermocline up --data FOLDER` begins with its own choices: one volume of 1 GiB on three new files, slowed to SCM, SATA SSD and a
   disk. fio fills the volume in order, so that what comes first lies on the fastest pool.
2. fio then reads 16 KiB at a time, Zipf over the whole volume, at a given rate; its log has the mean of each ten seconds.
3. The same is done with `--policy none`, in turns.

Expected before the first run (29 November 2026, issue J, must show 5): in the second minute the mean is at most 0.8 times that of the
first ten seconds, and at most 0.8 times that of `none` in the same time. A repeat that misses is a miss.
Prints JSON; its `table` is what people read.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from live import Live

WINDOW = 10


def run(args, place, more):
    """(Mean latency of each window, seconds; bytes moved; the policy and its account)."""
    data = place / "data"
    with Live(args.binary, data, ["--data", str(data), *more]) as up:
        up.fio("--size=1g", "--rw=write", "--bs=1m", "--iodepth=4", "--end_fsync=1")
        up.fio("--size=1g", "--rw=randread", "--bs=16k", "--random_distribution=zipf:1.1", "--iodepth=8", f"--rate_iops={args.rate}", "--time_based",
               f"--runtime={args.seconds}", "--randseed=1", f"--write_lat_log={place / 'log'}", f"--log_avg_msec={WINDOW * 1000}")
        rows = [line.split(",") for line in (place / "log_lat.1.log").read_text().splitlines()]
        return [int(row[1]) / 1e9 for row in rows], up.moved_bytes(), up.told("policy", "show")


def median(rows, at):
    values = [row[at] for row in rows if at < len(row)]
    return f"{statistics.median(values) * 1e3:.2f}" if values else "–"


def verdict(runs):
    """(Holds, what it came to) of each pair of runs."""
    told = []
    for chosen, none in zip(runs["auto"], runs["none"]):
        minute = slice(60 // WINDOW, 120 // WINDOW)
        late = statistics.fmean(chosen[minute])
        ratios = late / chosen[0], late / statistics.fmean(none[minute])
        told.append((max(ratios) <= 0.8, ratios))
    return told


def table(args, runs, moved, account):
    head = [f"{at}–{at + WINDOW} s" for at in range(0, args.seconds, WINDOW)]
    text = f"Reads of 16 KiB, Zipf 1.1 over 1 GiB, {args.rate} a second; mean latency in ms, median of {args.repeats} runs\n\n"
    text += "| | " + " | ".join(head) + " | moved |\n|---|" + "---:|" * (len(head) + 1) + "\n"
    for name, rows in runs.items():
        cells = [median(rows, at) for at in range(len(head))]
        text += f"| {name} | " + " | ".join(cells) + f" | {statistics.median(moved[name]) / 2**20:.0f} MiB |\n"
    for holds, (first, none) in verdict(runs):
        text += f"\n- {'holds' if holds else 'DOES NOT HOLD'}: the second minute takes {first:.2f} times the first ten seconds, {none:.2f} times `none`"
    return text + f"\n\nThe last account of `auto`: {json.dumps(account)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["up"])
    parser.add_argument("built", help="the engine")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("--binary", help="an engine to take instead")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--rate", type=int, default=150, help="requests a second")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if args.seconds < 120:
        parser.error("--seconds is 120 or more: what is judged is the second minute")
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    runs, moved, account = {"auto": [], "none": []}, {"auto": [], "none": []}, None
    for turn in range(args.repeats):
        for name, more in [("auto", []), ("none", ["--policy", "none"])][:: 1 if turn % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory(dir=args.kept) as folder:
                means, bytes_moved, policy = run(args, pathlib.Path(folder).resolve(), more)
            runs[name].append(means)
            moved[name].append(bytes_moved)
            account = policy["account"] if name == "auto" else account
            print(f"{name}: {means}, {bytes_moved} bytes moved", file=sys.stderr)
    print(json.dumps({"runs": runs, "moved": moved, "account": account, "table": table(args, runs, moved, account)}))


main()
