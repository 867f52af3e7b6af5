"""Figure 4.16 of OpenANFV (Ge 2017): NAT, DPI and Dedup with and without accelerators, per core.

    openanfv.py openanfv BINARY KEPT [--rounds N] [--seconds N] [--hyperscan PYTHON] [--binary PATH]

1. NAT without: the kernel's masquerade between network namespaces (functions.py), less what the sender costs when the router drops all at once. The
   second veth pair is part of it.
2. DPI without: one expression after the other, each as an automaton of its own, which looks at each packet alone and stops at the first match. 100 and
   1,000 rules, one in twenty an expression, all without regard to case.
3. Dedup without: the source's Rabin function byte by byte, MurmurHash3 and a Bloom filter.
4. With SIMD: our functions on one core (`functions_cost -- figure`, the tunnel's `costs --fits`), and the live pool of functions.py.
5. A slot of ours: the chunking core at its placed clock (docs/results/hdl.md). There are no cores for NAT and DPI.
6. Best software: Hyperscan in streaming mode, if a Python that imports `hyperscan` is here; chunks by Gear for Dedup.

Everything but row 5 is processor time on this machine. Needs root, `ip`, `nft`, cargo. Prints JSON; its `table` is what people read.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import functions
from namespaces import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACED_GBIT = 149e6 * 8 * 8 / 1e9
SOURCE = {"NAT": 10.0, "DPI": 20.0, "Dedup": 8.2}
DROP = "table ip d {\nchain c {\ntype filter hook prerouting priority -300\ndrop\n}\n}\n"
SPREAD = r"([\d.]+) \(([\d.]+)(?: to |-)([\d.]+)\)"
HYPERSCAN = """
import hyperscan, time
text = open("text", "rb").read()
pieces = [text[at:at + 1460] for at in range(0, len(text), 1460)]
for count in (100, 1000):
    expressions = open(f"expressions-{count}", "rb").read().split(b"\\n")
    database = hyperscan.Database(mode=hyperscan.HS_MODE_STREAM)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_DOTALL
    database.compile(expressions=expressions, ids=list(range(count)), flags=[flags] * count)
    rates = []
    for _ in range(3):
        streams = [database.stream(match_event_handler=lambda *_: None) for _ in range(64)]
        for stream in streams:
            stream.__enter__()
        start = time.thread_time()
        for nth, piece in enumerate(pieces):
            streams[nth % 64].scan(piece)
        rates.append(len(text) * 8e-9 / (time.thread_time() - start))
        for stream in streams:
            stream.__exit__(None, None, None)
    print(count, *sorted(rates))
"""


class Dropping:
    """A router that drops what comes before it is looked at: what is left is the sender's cost."""

    def __init__(self):
        functions.ip("-n", functions.ROUTER, "addr", "add", "10.0.0.1/24", "dev", "in0")
        run("ip", "netns", "exec", functions.ROUTER, "nft", "-f", "-", input=DROP, text=True)

    def end(self):
        run("ip", "netns", "exec", functions.ROUTER, "nft", "flush", "ruleset")
        functions.ip("-n", functions.ROUTER, "addr", "flush", "dev", "in0")


def sent():
    words = ["ip", "-n", functions.CLIENT, "-s", "-j", "link", "show", "c0"]
    return json.loads(run(*words, capture_output=True, text=True).stdout)[0]["stats64"]["tx"]["packets"]


def loaded(router, size, seconds, count):
    """Microseconds of the machine's processors for each packet that `count` counts."""
    rates = functions.loaded(size, seconds, count)
    router.end()
    return 1e6 / rates["a_cpu_second"]


def kernel(args):
    """For each size, what masquerading costs a packet, in µs, in each round."""
    costs = {size: [] for size in functions.SIZES}
    try:
        functions.wire()
        # Nobody takes what arrives: delivery is no part of a router's work.
        run("ip", "netns", "exec", functions.SERVER, "nft", "-f", "-", input=DROP, text=True)
        for _ in range(args.rounds):
            for size, found in costs.items():
                whole = loaded(functions.Kernel(), size, args.seconds, functions.arrived)
                sender = loaded(Dropping(), size, args.seconds, sent)
                found.append({"whole_us": whole, "sender_us": sender, "kernel_us": whole - sender})
    finally:
        functions.unwire()
    return costs


def example(package, name, *words, cwd):
    """What an example of a crate prints."""
    command = ["cargo", "run", "--quiet", "--release", "--manifest-path", ROOT / "Cargo.toml", "--package", package, "--example", name, "--", *words]
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def values(text, line):
    """Median, least and greatest behind the line's beginning."""
    found = re.search(re.escape(line) + r"[^\n(]*?" + SPREAD, text)
    if not found:
        raise SystemExit(f"no line like `{line}` in:\n{text}")
    return [float(value) for value in found.groups()]


def hyperscan(python, folder):
    """Gbit a CPU second by the number of rules; nothing without Hyperscan."""
    done = subprocess.run([python, "-c", HYPERSCAN], cwd=folder, check=False, stdout=subprocess.PIPE, text=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {int(count): [float(middle), float(least), float(most)] for count, least, middle, most in rows}


def as_gbit(nanoseconds_a_byte):
    middle, least, most = nanoseconds_a_byte
    return [8 / middle, 8 / most, 8 / least]


def row(function, what, unit, without, rate, note=""):
    """A row: its rate, and by how much it is above what it is without accelerators."""
    if rate is None:
        return f"| {function} | {what} | {note} | | |"
    digits = 2 if rate[0] >= 1 else 3 if rate[0] >= 0.1 else 4
    text = f"{rate[0]:.{digits}f} ({rate[1]:.{digits}f} to {rate[2]:.{digits}f})" if rate[1] != rate[2] else f"{rate[0]:.{digits}f}"
    return f"| {function} | {what} | {text} {unit} | ×{rate[0] / without[0]:.3g} | {note} |"


def table(figures):
    lines = ["| function | how | rate of one core, or of one slot | beside without | |", "|---|---|---|---:|---|"]
    source = {name: f"the source: ×{factor:g} with its card" for name, factor in SOURCE.items()}
    for size in functions.SIZES:
        name = f"NAT, {size} B"
        costs = sorted(one["kernel_us"] for one in figures["kernel"][size])
        without = [1 / statistics.median(costs), 1 / costs[-1], 1 / costs[0]]
        million = "million packets/s"
        lines.append(row(name, "without: kernel's masquerade, less the sender", million, without, without, source["NAT"]))
        lines.append(row(name, "our function alone", million, without, figures["nat"][size]))
        if size in figures["pool"]:
            rate = [value / 1e6 for value in figures["pool"][size]]
            lines.append(row(name, "live pool, with the sender and the devices", million, without, rate))
        lines.append(row(name, "slot", million, without, None, "no core was built"))
    for count, rates in figures["dpi"].items():
        name = f"DPI, {count} rules"
        without = rates["one after the other"]
        lines.append(row(name, "without: one expression after the other", "Gbit/s", without, without, source["DPI"]))
        lines.append(row(name, "our function", "Gbit/s", without, rates["inspection"]))
        best = figures["hyperscan"].get(count)
        lines.append(row(name, "best software: Hyperscan", "Gbit/s", without, best, "" if best else "`hyperscan` is not installed"))
        lines.append(row(name, "slot", "Gbit/s", without, None, "no core was built"))
    without = figures["dedup"]["source's"]
    lines.append(row("Dedup, 2 KiB", "without: Rabin byte by byte, MurmurHash3, Bloom filter", "Gbit/s", without, without, source["Dedup"]))
    lines.append(row("Dedup, 2 KiB", "ours: Rabin16 by SIMD, XXH3, comparison", "Gbit/s", without, figures["dedup"]["rabin16"]))
    lines.append(row("Dedup, 2 KiB", "other software: Gear, XXH3, comparison", "Gbit/s", without, figures["dedup"]["gear"]))
    lines.append(row("Dedup, 2 KiB", "slot: cut points only, simulated, 149 MHz placed", "Gbit/s", without, [PLACED_GBIT] * 3))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["openanfv"])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("kept", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--hyperscan", default=sys.executable, help="a Python that imports hyperscan")
    parser.add_argument("--binary", type=pathlib.Path, dest="other")
    args = parser.parse_args()
    args.binary = (args.other or args.binary).resolve()
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root")
    with tempfile.TemporaryDirectory() as folder:
        functions_text = example("thermocline-functions", "functions_cost", "figure", cwd=folder)
        dedup_text = example("thermocline-tunnel", "costs", str(args.binary), "--fits", "--repeat", str(args.rounds), cwd=folder)
        best = hyperscan(args.hyperscan, folder)
    dpi = {count: {how: values(functions_text, f"DPI, {count} rules, {how}: ") for how in ("inspection", "one after the other")} for count in (100, 1000)}
    for rates in dpi.values():
        rates["one after the other"] = [rate / 1000 for rate in rates["one after the other"]]
    dedup = {name: as_gbit(values(dedup_text, f"{name:<14} {'2KiB':>10}")) for name in ("source's", "rabin16", "gear")}
    nat = {size: values(functions_text, f"NAT, {size} B, 64 flows: ") for size in functions.SIZES}
    figures = {"kernel": kernel(args), "nat": nat, "pool": functions.kept_pool(args.kept), "dpi": dpi, "hyperscan": best, "dedup": dedup}
    print(json.dumps({"figures": figures, "table": table(figures)}))


if __name__ == "__main__":
    main()
