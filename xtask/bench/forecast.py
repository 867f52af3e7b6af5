"""What the laboratory forecasts beside what the live engine did, placement by placement.

    forecast.py forecast BINARY KEPT [--policies NAME,…] [--seconds N] [--rate N] [--binary PATH]

1. The engine runs under a placement on three new pools, slowed to SCM, SATA SSD and a disk of 7,200 rpm, and records. fio fills the
   volume in order, and then asks as a file server does: one read for two writes of 16 KiB, Zipf, at a given rate.
2. The recording has what each request took. `lab volume` runs the recording's requests at their times under the same placement on
   modelled pools of the same sizes and profiles. The mean of what came after the filling is compared, and what was moved.

The machine is the same code in both; what differs are the devices, the processor, and what fio does when it is answered late.
Prints JSON; its `table` is what people read.
"""

import argparse
import csv
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from live import Live

POOLS = [("scm", "scm", 24), ("ssd", "ssd-sata", 96), ("hdd", "hdd-7200", 560)]  # name, profile, MiB
VOLUME_MIB = 512
USED_MIB = 448
POLICIES = "static,auto,baseline,iops-only,edt,chew:top=1.2:low=0.04:very-intense=2:of=none,benefit,hemem,colloid"
PIECE = "128KiB"


def epoch(policy):
    """The epoch of a placement: `auto` has its own, and the others one that a run of a minute has many of."""
    return "10s" if policy.split(":")[0] == "auto" else "3s"


def configuration(folder, policy):
    text = f'data = "{folder}"\n'
    for name, profile, mib in POOLS:
        text += f'[[pool]]\nname = "{name}"\nsize = "{mib}MiB"\nemulate = "{profile}"\n'
    text += f'[[volume]]\nsize = "{VOLUME_MIB}MiB"\n[copying]\npiece = "{PIECE}"\n'
    name, *settings = policy.split(":")
    text += f'[policy]\nname = "{name}"\nepoch = "{epoch(policy)}"\n'
    if settings:
        pairs = [setting.split("=") for setting in settings]
        text += "[policy.settings]\n" + "".join(f'{key} = "{value}"\n' for key, value in pairs)
    path = folder.parent / "engine.toml"
    path.write_text(text)
    return path


def live(args, place, policy):
    """(The recording, bytes moved, chunks of each pool)."""
    data, record = place / "data", place / "r.tcr"
    data.mkdir()
    size = f"--size={USED_MIB}m"
    with Live(args.binary, data, [str(configuration(data, policy)), "--record", str(record)]) as engine:
        engine.fio(size, "--rw=write", "--bs=1m", "--iodepth=4", "--end_fsync=1")
        # fio 3.33 asks much less often than it is told to when sizes differ.
        engine.fio(size, "--rw=randrw", "--rwmixread=33", "--bs=16k", "--random_distribution=zipf:1.1", "--iodepth=16",
                   f"--rate_iops={args.rate // 3},{args.rate * 2 // 3}", "--time_based", f"--runtime={args.seconds}", "--randseed=1")
        pools = engine.told("status")["pools"]
        return record, engine.moved_bytes(), [pool["chunks_total"] for pool in pools]


def recorded(args, record, place):
    """(Mean and 99th percentile of what requests took after the filling, seconds; how many; when the first of them came)."""
    text = place / "t.csv"
    subprocess.check_call([args.binary, "trace", "convert", str(record), "-o", str(text)], stderr=subprocess.DEVNULL)
    with open(text) as lines:
        rows = [row for row in csv.DictReader(lines) if row["op"] in ("read", "write")]
    small = [row for row in rows if int(row["length_bytes"]) == 16 << 10]
    took = sorted(int(row["response_ns"]) for row in small)
    first = min(int(row["time_ns"]) for row in small)
    return statistics.fmean(took) / 1e9, took[len(took) * 99 // 100] / 1e9, len(took), first / 1e9


def forecast(args, record, first, chunks, policy, place):
    """(Mean latency after the filling, seconds; bytes moved)."""
    pools = place / "pools.toml"
    pools.write_text("".join(f'[[pool]]\nname = "{name}"\nprofile = "{profile}"\nsize = "{count}MiB"\n'
                             for (name, profile, _), count in zip(POOLS, chunks)))
    command = [args.binary, "lab", "volume", "--trace", str(record), "--pools", str(pools), "--policy", policy, "--epoch", epoch(policy), "--piece", PIECE,
               "--thin", "--json"]
    run = json.loads(subprocess.check_output(command))["runs"][0]
    # Time is cut into slices; the one in which the load began is left out.
    after = [slice for slice in run["slices"] if slice["start_s"] >= first]
    weights = [slice["iops"] * (slice["end_s"] - slice["start_s"]) for slice in after]
    mean = sum(slice["mean_s"] * weight for slice, weight in zip(after, weights)) / sum(weights)
    return mean, run["migrated_bytes"]


def off(value, truth):
    return f"{(value / truth - 1) * 100:+.0f} %" if truth else "–"


def table(rows, args):
    text = (f"File server, {args.rate} requests of 16 KiB a second for {args.seconds} s; {VOLUME_MIB} MiB on "
            + ", ".join(f"{mib} MiB {profile}" for _, profile, mib in POOLS) + f"; epochs of 3 s, `auto` 10 s\n\n"
            "| placement | mean: live | forecast | off | p99: live | moved: live | forecast |\n|---|---:|---:|---:|---:|---:|---:|\n")
    for row in rows:
        mean, p99 = row["live"][:2]
        mean_f, moved_f = row["forecast"]
        text += (f"| {row['policy']} | {mean * 1e3:.2f} ms | {mean_f * 1e3:.2f} ms | {off(mean_f, mean)} | {p99 * 1e3:.1f} ms "
                 f"| {row['moved'] / 2**20:.0f} MiB | {moved_f / 2**20:.0f} MiB |\n")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["forecast"])
    parser.add_argument("built", help="the engine")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("--binary", help="an engine to take instead")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--rate", type=int, default=120, help="requests a second")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    with tempfile.TemporaryDirectory(dir=args.kept) as folder:
        folder = pathlib.Path(folder).resolve()
        rows = []
        for policy in args.policies.split(","):
            place = folder / policy.replace(":", "-")
            place.mkdir()
            record, moved, chunks = live(args, place, policy)
            *took, first = recorded(args, record, place)
            rows.append({"policy": policy, "live": took, "moved": moved, "forecast": forecast(args, record, first, chunks, policy, place)})
            print(f"{policy}: {rows[-1]}", file=sys.stderr)
            shutil.rmtree(place)
    print(json.dumps({"rows": rows, "table": table(rows, args)}))


main()
