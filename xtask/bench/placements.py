"""Placements over traces and synthetic loads, in virtual time: `cargo xtask bench placements`.

A case is a load, a pool set, a pace and a seed; all placements run on it, and what counts is each one's
mean and 99th percentile over those of `static` in the same case. What was possible is what `oracle`
came to, which knows the future, or whoever did better; gains are told as a share of that.

Of a folder each file is a trace in which the program finds a request, in subfolders too; the others are
named with the program's reason. Without `--full` traces count up to their first `--first` requests, and
no case begins after `--budget` minutes: what was left out is told. Loads come before pool sets and paces,
so that a run that is cut short has seen every load.

Prints JSON with a table, as all scripts here. Only the standard library.
"""

import argparse
import gzip
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

POOL_SETS = {
    "nvme10-hdd": [("nvme", "10%"), ("hdd-7200", "110%")],
    "nvme5-sata20-hdd": [("nvme", "5%"), ("ssd-sata", "20%"), ("hdd-7200", "110%")],
    "sata20-hdd": [("ssd-sata", "20%"), ("hdd-7200", "110%")],
    "nvme30-sata": [("nvme-pcie3", "30%"), ("ssd-sata", "110%")],
    "scm3-hdd15k": [("scm", "3%"), ("hdd-15k", "110%")],
}
PACES = {"1": ["--speed", "1"], "8": ["--speed", "8"], "closed": ["--closed", "16"]}
PRESETS = ["oltp", "web", "vdi", "backup", "mixed", "fileserver"]
# `@10s`: with epochs of 10 s, which most of the others profit from; else their own, or five minutes.
POLICIES = [
    "static", "oracle", "auto", "baseline", "iops-only", "edt", "chew", "chew-pp", "vfrm", "g1-vfrm",
    "g2-vfrm", "grem", "hemem", "colloid", "smq", "lmst", "benefit", "orthus", "most",
    "baseline@10s", "edt@10s", "chew-pp@10s", "hemem@10s", "colloid@10s", "smq@10s", "benefit@10s",
]
# What a short run compares.
SHORT_POLICIES = ["static", "oracle", "auto", "baseline", "hemem@10s", "colloid@10s", "benefit@10s"]
MIB = 1 << 20
CHUNKS = 4096


def write_msr(path, requests):
    """Requests (seconds, is_write, offset, length) as a trace in MSR's columns."""
    with gzip.open(path, "wt", compresslevel=1) as out:
        for at, is_write, offset, length in requests:
            kind = "Write" if is_write else "Read"
            out.write(f"{int(at * 1e7) + 128166372000000000},synth,0,{kind},{offset},{length},0\n")


def arrivals(rng, count, rate):
    at = 0.0
    for _ in range(count):
        at += rng.expovariate(rate)
        yield at


def within(rng, chunk):
    return chunk * MIB + rng.randrange(MIB // 4096) * 4096


def uniform(rng, count):
    for at in arrivals(rng, count, 60):
        yield at, rng.random() < 0.3, within(rng, rng.randrange(CHUNKS)), 4096


def hot_set(rng, count, place, rate=60):
    """Nine of ten requests go to a set of 200 chunks that `place` tells at each moment."""
    for at in arrivals(rng, count, rate):
        chunk = place(at) if rng.random() < 0.9 else rng.randrange(CHUNKS)
        yield at, rng.random() < 0.3, within(rng, chunk % CHUNKS), 4096


def shift(rng, count):
    """The hot set is elsewhere after each fifth of the time, in one piece."""
    fifth = count / 60 / 5
    starts = [rng.randrange(1000, CHUNKS) for _ in range(64)]
    return hot_set(rng, count, lambda at: starts[int(at / fifth)] + rng.randrange(200))


def drift(rng, count):
    """The hot set moves on by a chunk every two seconds."""
    return hot_set(rng, count, lambda at: 1000 + int(at / 2) + rng.randrange(200))


def steady(rng, count):
    """Chunks by Zipf's law, scattered; they stay."""
    order = list(range(CHUNKS))
    rng.shuffle(order)
    weights = [1 / (rank + 1) ** 1.1 for rank in range(CHUNKS)]
    chosen = rng.choices(order, weights, k=count)
    for at, chunk in zip(arrivals(rng, count, 60), chosen):
        yield at, rng.random() < 0.3, within(rng, chunk), 4096


def scatter(rng, count):
    """Hot blocks of 4 KiB, by Zipf's law, scattered over everything: chunks are alike but for a few."""
    blocks = [rng.randrange(CHUNKS * 256) for _ in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(blocks))]
    chosen = rng.choices(blocks, weights, k=count)
    for at, block in zip(arrivals(rng, count, 60), chosen):
        yield at, rng.random() < 0.3, block * 4096, 4096


def scan(rng, count):
    """A hot set that stays, and a reader that goes through everything in order beside it."""
    place, at_scan = 2000, 0
    for at in arrivals(rng, count, 60):
        if rng.random() < 0.5:
            yield at, False, at_scan, 65536
            at_scan = (at_scan + 65536) % (CHUNKS * MIB)
        else:
            yield at, rng.random() < 0.3, within(rng, place + rng.randrange(150)), 4096


def burst(rng, count):
    """Quiet times and storms, each storm on chunks of its own and on a set that comes again."""
    at, left = 0.0, count
    regular = [rng.randrange(CHUNKS) for _ in range(100)]
    while left > 0:
        own = rng.randrange(CHUNKS - 50)
        for _ in range(min(left, 1500)):
            at += rng.expovariate(150)
            chunk = rng.choice(regular) if rng.random() < 0.6 else own + rng.randrange(50)
            yield at, rng.random() < 0.5, within(rng, chunk), 8192
        left -= 1500
        at += rng.uniform(5, 40)


SYNTHETIC = [uniform, shift, drift, steady, scatter, scan, burst]


def make_synthetic(folder, count, seed):
    """Files of the synthetic loads, made where they are not there yet."""
    os.makedirs(folder, exist_ok=True)
    made = []
    for load in SYNTHETIC:
        path = os.path.join(folder, f"{load.__name__}-{count}-{seed}.csv.gz")
        if not os.path.exists(path):
            # Only a whole file has its name.
            write_msr(path + ".part", load(random.Random(f"{load.__name__} {seed}"), count))
            os.rename(path + ".part", path)
        made.append((load.__name__, [path, "--format", "msr"]))
    return made


def part_of(binary, path, part, first):
    """(Requests of the trace, at most `first`, written to `part`; or why it is none)."""
    command = [binary, "trace", "convert", path, "--first", str(first), "--output", part, "--force", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return 0, next((line for line in done.stderr.splitlines() if line.strip()), "no reason told").removeprefix("error: ")
    return json.loads(done.stdout)["requests"], None


def traces_of(binary, folder, work, first):
    """Traces of a folder, with the name of each; those that were shortened; and other files, with the reason."""
    found, shortened, others = [], [], []
    os.makedirs(work, exist_ok=True)
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if not name.startswith(".")]
    for number, path in enumerate(sorted(paths)):
        name, part = os.path.relpath(path, folder), os.path.join(work, f"{number}.parquet")
        # Without a bound one request tells whether it is a trace.
        count, why = part_of(binary, path, part, first or 1)
        if why or not count:
            others.append(f"{name}: {why or 'no request in it'}")
        elif first and count >= first:
            shortened.append(name)
            found.append((name, [part]))
        else:
            os.remove(part)
            found.append((name, [path]))
    return found, shortened, others


def write_pools(folder):
    paths = {}
    for name, pools in POOL_SETS.items():
        paths[name] = os.path.join(folder, f"pools-{name}.toml")
        with open(paths[name], "w", encoding="utf-8") as out:
            for index, (profile, size) in enumerate(pools):
                out.write(f'[[pool]]\nname = "p{index}"\nprofile = "{profile}"\nsize = "{size}"\n')
    return paths


def run_case(binary, case, policies, options, limit):
    """One case; the figures of each placement, or why it could not be run."""
    groups = {}
    for policy in policies:
        name, _, epoch = policy.partition("@")
        groups.setdefault(epoch, []).append(name)
    whole = {"rows": {}}
    for epoch, names in groups.items():
        more = options + (["--epoch", epoch] if epoch else [])
        part = run_group(binary, case, names, more, limit)
        if "error" in part and len(names) > 1 and not part.get("late"):
            # One placement that fails does not cost the others' figures.
            part = one_by_one(binary, case, names, more, limit)
        if "error" in part:
            if "static" in names:
                return part
            whole.setdefault("without", []).append(f"{', '.join(names)}: {part['error']}")
            continue
        whole.setdefault("without", []).extend(part.pop("without", []))
        ending = f"@{epoch}" if epoch else ""
        whole["rows"].update({name + ending: row for name, row in part.pop("rows").items()})
        whole.update(part)
    return whole


def one_by_one(binary, case, policies, options, limit):
    """The figures of each placement that could be run, and why the others could not."""
    whole = {"rows": {}, "without": []}
    for policy in policies:
        part = run_group(binary, case, [policy], options, limit)
        if "error" not in part:
            whole["rows"].update(part.pop("rows"))
            whole.update(part)
        elif policy == "static":
            return part
        else:
            whole["without"].append(f"{policy}: {part['error']}")
    return whole


def run_group(binary, case, policies, options, limit):
    command = [binary, "lab", "volume", *case["input"], "--pools", case["pools_file"], "--json", "--threads", "1"]
    command += ["--policy", ",".join(policies), "--seed", str(case["seed"]), *PACES[case["pace"]], *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"longer than {limit} s", "late": True}
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no reason told"}
    report = json.loads(done.stdout)
    rows = {}
    for run in report["runs"]:
        wear = sum(pool["flash_programmed_bytes"] for pool in run["pools"])
        rows[run["policy"]] = {
            "mean": run["all"]["mean_s"],
            "p99": run["all"]["p99_s"],
            "moved": run["migrated_bytes"],
            "wear": wear,
            "cpu": run["cpu_s"],
            "failed": run["failed"],
        }
    return {"rows": rows, "requests": report["requests"], "span": report["trace_span_s"]}


def brief(rows):
    """Mean and 99th percentile over those of static, of each placement."""
    base = rows["static"]
    ratio = lambda row, key: row[key] / base[key] if base[key] > 0 else 1.0
    others = [(name, row) for name, row in rows.items() if name != "static"]
    return ", ".join(f"{name} {ratio(row, 'mean'):.3f}/{ratio(row, 'p99'):.2f}" for name, row in others)


def bound_of(rows):
    """What was possible, as far as is known: whoever did best, who knows the future or not."""
    return min(rows.values(), key=lambda row: row["mean"]) if "oracle" in rows else None


def geometric(values):
    values = [max(value, 1e-9) for value in values]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    if not ordered:
        return float("nan")
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def summary(cases, policies):
    """A line a placement: ratios to static over the cases."""
    lines = []
    for policy in policies:
        ratios, tails, shares, moved, wear = [], [], [], [], []
        worst = (0.0, "")
        for case in cases:
            rows = case["result"]["rows"]
            if policy not in rows or rows["static"]["mean"] <= 0:
                continue
            base, own = rows["static"], rows[policy]
            ratio = own["mean"] / base["mean"]
            ratios.append(ratio)
            tails.append(own["p99"] / base["p99"] if base["p99"] > 0 else 1.0)
            worst = max(worst, (ratio, case["name"]))
            moved.append(own["moved"])
            wear.append(own["wear"] / base["wear"] if base["wear"] > 0 else 1.0)
            bound = bound_of(rows)
            # Where a twentieth or less can be gained a share of it says nothing.
            if bound and bound["mean"] < 0.95 * base["mean"]:
                shares.append((base["mean"] - own["mean"]) / (base["mean"] - bound["mean"]))
        if ratios:
            lines.append({
                "policy": policy, "cases": len(ratios), "geometric": geometric(ratios),
                "median": median(ratios), "worst": worst[0], "worst_case": worst[1],
                "p99_geometric": geometric(tails), "p99_worst": max(tails), "share": median(shares),
                "moved_gib": sum(moved) / len(moved) / 2**30, "wear": geometric(wear),
            })
    return lines


def table(title, cases, policies):
    text = f"\n{title}: {len(cases)} cases, ratios to static\n"
    text += f"{'placement':<12} {'mean':>6} {'median':>6} {'worst':>6} {'p99':>6} {'worst':>6} "
    text += f"{'share':>6} {'moved GiB':>9} {'wear':>6}  worst case\n"
    for line in summary(cases, policies):
        text += f"{line['policy']:<12} {line['geometric']:>6.3f} {line['median']:>6.3f} {line['worst']:>6.2f} "
        text += f"{line['p99_geometric']:>6.2f} {line['p99_worst']:>6.2f} {line['share']:>6.2f} "
        text += f"{line['moved_gib']:>9.2f} {line['wear']:>6.2f}  {line['worst_case']}\n"
    return text


def details(cases, policy):
    text = f"\n{policy} by case: mean / static, p99 / static, moved MiB, share of the possible gain\n"
    for case in cases:
        rows = case["result"]["rows"]
        if policy not in rows:
            continue
        base, own, bound = rows["static"], rows[policy], bound_of(rows)
        gain = base["mean"] - bound["mean"] if bound else 0.0
        share = f"{(base['mean'] - own['mean']) / gain:>6.2f}" if gain > 0.05 * base["mean"] else "     -"
        tail = own["p99"] / base["p99"] if base["p99"] > 0 else 1.0
        best = f"{bound['mean'] / base['mean']:>6.3f}" if bound else "     -"
        text += f"{case['name']:<52} {own['mean'] / base['mean']:>6.3f} {tail:>6.2f} {own['moved'] / 2**20:>8.0f} "
        text += f"{share}  best {best}  static {base['mean'] * 1e3:.3f} ms\n"
    return text


def arguments():
    parser = argparse.ArgumentParser(prog="cargo xtask bench placements", description=__doc__)
    parser.add_argument("what")
    parser.add_argument("release")
    parser.add_argument("keep")
    parser.add_argument("folder", nargs="?", help="a folder of traces; none: synthetic loads only")
    parser.add_argument("--binary", help="the program to run, instead of a release build")
    parser.add_argument("--full", action="store_true", help="all placements, pool sets, paces and seeds")
    parser.add_argument("--policy", help="placements, separated by commas; static is always run")
    parser.add_argument("--pools", help="pool sets, separated by commas: " + ", ".join(POOL_SETS))
    parser.add_argument("--pace", help="paces, separated by commas: " + ", ".join(PACES))
    parser.add_argument("--seeds", type=int, help="how many seeds: 1, with --full 3")
    parser.add_argument("--first-seed", type=int, default=1, help="the first of them; later ones are loads that nobody has seen")
    parser.add_argument("--loads", help="names of loads and traces, separated by commas; all when not given")
    parser.add_argument("--requests", type=int, default=None, help="requests of a synthetic load")
    parser.add_argument("--first", type=int, help="requests of a trace that count; 0: all (1,000,000, with --full all)")
    parser.add_argument("--budget", type=float, help="minutes after which no case begins; 0: none (30, with --full none)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that one case may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at once")
    parser.add_argument("--option", action="append", default=[], help="passed on to lab volume")
    return parser.parse_args()


def chosen(text, known, default):
    if text is None:
        return default
    names = text.split(",")
    wrong = [name for name in names if name not in known]
    if wrong:
        sys.exit(f"`{wrong[0]}` is not known; there are {', '.join(known)}")
    return names


def plan(args, binary, work):
    """Cases, every load before the next pool set or pace; and lines about files that are left out or shortened."""
    pools = chosen(args.pools, list(POOL_SETS), list(POOL_SETS) if args.full else list(POOL_SETS)[:1] + ["nvme30-sata"])
    paces = chosen(args.pace, list(PACES), list(PACES) if args.full else ["1"])
    count = args.seeds if args.seeds is not None else 3 if args.full else 1
    if count < 1 or args.first_seed < 1:
        sys.exit("--seeds and --first-seed are numbers from 1 on")
    seeds = range(args.first_seed, args.first_seed + count)
    files = write_pools(work)
    cases, told = [], []
    first = args.first if args.first is not None else 0 if args.full else 1_000_000
    traces, shortened, others = traces_of(binary, args.folder, os.path.join(work, "parts"), first) if args.folder else ([], [], [])
    told += [f"only the first {first:,} requests: {name}" for name in shortened] + [f"no trace: {line}" for line in others]
    for seed in seeds:
        count = args.requests or (200_000 if args.full else 60_000)
        inputs = [("synthetic", *made) for made in make_synthetic(os.path.join(work, "loads"), count, seed)]
        inputs += [("synthetic", name, ["--synth", f"{name},requests={count},seed={seed}"]) for name in PRESETS]
        inputs += [("trace", *found) for found in traces]
        wanted = args.loads.split(",") if args.loads else None
        inputs = [(kind, name, source) for kind, name, source in inputs if wanted is None or name in wanted or name.split(".")[0] in wanted]
        for pool, pace in itertools.product(pools, paces):
            cases += [{
                "kind": kind, "load": name, "input": source, "pools": pool, "pools_file": files[pool],
                "pace": pace, "seed": seed, "name": f"{name} {pool} {pace} #{seed}",
            } for kind, name, source in inputs]
    return cases, told


def main():
    args = arguments()
    binary = args.binary or args.release
    policies = args.policy.split(",") if args.policy else POLICIES if args.full else SHORT_POLICIES
    if "static" not in policies:
        policies = ["static", *policies]
    work = os.path.join(args.keep, "placements")
    os.makedirs(work, exist_ok=True)
    began, options = time.monotonic(), " ".join(args.option).split()
    cases, notes = plan(args, binary, work)
    if not cases:
        sys.exit("there is no case to run; --loads names loads that exist")
    budget = args.budget if args.budget is not None else 0 if args.full else 30

    def one(numbered):
        number, case = numbered
        if budget and time.monotonic() - began > 60 * budget:
            case["result"] = {"error": f"the budget of {budget:g} minutes was over"}
            return
        case["result"] = run_case(binary, case, policies, options, args.limit)
        told = case["result"].get("error") or brief(case["result"]["rows"])
        print(f"{number + 1}/{len(cases)} {case['name']}: {told}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(max_workers=max(args.jobs, 1)) as pool:
        list(pool.map(one, enumerate(cases)))
    good = [case for case in cases if "rows" in case["result"]]
    text = ""
    for kind, title in [("trace", "traces"), ("synthetic", "synthetic loads")]:
        some = [case for case in good if case["kind"] == kind]
        if some:
            text += table(title, some, policies)
    for policy in [name for name in policies if name.split(":")[0] == "auto"]:
        text += details(good, policy)
    failed = [f"{case['name']}: {case['result']['error']}" for case in cases if "error" in case["result"]]
    failed += [f"{case['name']}, {line}" for case in good for line in case["result"].get("without", [])]
    text += "".join(f"\n{line}" for line in notes + [f"not run: {line}" for line in failed])
    text += f"\n{len(good)} of {len(cases)} cases in {time.monotonic() - began:.0f} s\n"
    json.dump({"table": text, "cases": cases, "policies": policies}, sys.stdout)


if __name__ == "__main__":
    main()
