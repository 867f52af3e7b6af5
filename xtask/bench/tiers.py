"""The engine beside the kernel's own tierings: the same load on the same two devices.

    tiers.py tiers BINARY KEPT [--seeds 1,2,3] [--seconds 40] [--warmup 80] [--only WORD,…] [--on-host] [--submit inline|offload]
             [--requests fresh|repeated] [--kernel PATH] [--modules FOLDER] [--slow-by scsi-debug|dm-delay]
             [--folder FOLDER] [--binary PATH]

A disk of which every request takes 8 ms, behind a fast device of 128 MiB; 4 KiB at random, Zipf 1.1 over 1 GiB, 70 % reads,
1,000 requests a second offered; tiers_load.py says how. Each run has new devices and a new guest in user-mode Linux, whose root
is the host's, read-only; tiers_guest.py is what happens inside. The kernel is that of Debian's package user-mode-linux
(linux.uml), or one of yours, built with ARCH=um; its modules are looked for in FOLDER/RELEASE.

A guest has one processor, and a system call, a reading of the clock included, takes tens of microseconds in it: a program that
makes many of them for a request pays for that, and what is in the kernel does not.

`--slow-by dm-delay` counts the kernel's ticks: of use where the tick is 1 ms; Debian's is 10 ms, which makes 18 ms of 8. Every run
measures its disk first, and the table says what was found.

`--on-host` runs the engine alone, without a guest, on files; the engine itself slows the pool. Devices are files in the folder of
`--folder`, which is memory unless told otherwise. `--binary` is an engine to take instead of the one that was built.

Prints JSON; its `table` is what people read. A run that fails is told on stderr and counted in the table; the others go on.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import tiers_candidates
import tiers_load

GUEST_MIB = 2560  # the slow disk is in the guest's memory
SETUP_SECONDS_MAX = 180
CONSOLE_TAIL = 6000  # characters
LOAD = {"iops": 1000, "read_percent": 70, "zipf": 1.1, "depth": 64, "delay_ms": 8, "disk_mib": 1280, "volume_mib": 1024,
        "fast_mib": 128}
DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
TOOLS = {"fio": "fio", "dmsetup": "dmsetup", "make-bcache": "bcache-tools", "nbd-client": "nbd-client"}


def find_kernel(args):
    kernel = args.kernel or shutil.which("linux.uml") or shutil.which("linux")
    if not kernel or not os.access(kernel, os.X_OK):
        sys.exit("there is no kernel for user-mode Linux: install the package user-mode-linux, or build one with ARCH=um and "
                 "give it with --kernel")
    return os.path.realpath(kernel)


def need(tools):
    places = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [package for tool, package in tools.items() if not shutil.which(tool, path=places)]
    if missing:
        sys.exit(f"install the packages {', '.join(missing)}")


def die_with_parent():
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def boot(args, folder):
    """Starts a guest in a session of its own, in which all of its processes stay."""
    script = pathlib.Path(__file__).resolve().with_name("tiers_guest.py")
    python = os.path.realpath(sys.executable)
    for path in (script, folder, python):
        if " " in str(path):
            sys.exit(f"{path}: a space in a path cannot be told to a kernel; move it")
    command = [args.kernel, f"mem={GUEST_MIB}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
               "con=null", "con0=null,fd:1", "ssl=null", f"uml_dir={folder}", f"ubda={folder / 'slow'}",
               f"ubdb={folder / 'fast'}", f"init={python}", "--", "-B", str(script), str(folder)]
    with open(folder / "console", "wb") as console:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
                                preexec_fn=die_with_parent, env={**os.environ, "TMPDIR": str(folder)})


def end(guest):
    try:
        os.killpg(guest.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    guest.wait()


def in_guest(args, run, folder):
    for name, mib in (("slow", run["disk_mib"]), ("fast", run["fast_mib"])):
        with open(folder / name, "wb") as device:
            device.truncate(mib << 20)
    (folder / "run.json").write_text(json.dumps(run))
    guest = boot(args, folder)
    reason = "the guest has no result"
    try:
        guest.wait(SETUP_SECONDS_MAX + run["warmup"] + run["seconds"])
    except subprocess.TimeoutExpired:
        reason = "the guest did not end in time and was killed"
    finally:
        end(guest)
    result = folder / "result.json"
    if not result.exists():
        console = (folder / "console").read_text(errors="replace")
        raise RuntimeError(f"{reason}; its console's end:\n{console[-CONSOLE_TAIL:]}")
    return json.loads(result.read_text())


def slow_profile(run):
    lane = 'mb-per-s = 1000000\ncommand = "0ns"\n'
    return (f'about = "every request takes {run["delay_ms"]} ms"\nsize = "{run["disk_mib"]}MiB"\ndiscard-zeroes = true\n'
            f'[parallel]\nservers = 1024\nread-service = "{run["delay_ms"]}ms"\nwrite-service = "{run["delay_ms"]}ms"\n'
            f"spread = [[0.0, 1.0], [1.0, 1.0]]\n[parallel.read]\n{lane}[parallel.write]\n{lane}")


def on_host(run, folder):
    (folder / "slow.toml").write_text(slow_profile(run))
    fast = {"path": folder / "fast.pool", "size": f"{run['fast_mib']}MiB"}
    slow = {"path": folder / "slow.pool", "size": f"{run['disk_mib']}MiB", "emulate": "slow.toml"}
    server, target, hits = tiers_candidates.serve(run, tiers_candidates.ENGINES[run["candidate"]](run, fast, slow), folder)
    try:
        tiers_candidates.write_all(run, target, folder)
        return tiers_load.load(run, target, hits, folder)
    finally:
        server.terminate()
        server.wait()


def once(args, run):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tiers-", dir=args.folder)).resolve()
    try:
        return on_host(run, folder) if args.on_host else in_guest(args, run, folder)
    except RuntimeError as error:
        raise RuntimeError(f"{error}\n{tiers_candidates.engine_said(folder)}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(args):
    words = args.only.split(",") if args.only else [""]
    among = tiers_candidates.ENGINES if args.on_host else tiers_candidates.CANDIDATES
    results = {name: [] for name in among if any(word in name for word in words)}
    settings = {**LOAD, "seconds": args.seconds, "warmup": args.warmup, "submit": args.submit, "requests": args.requests,
                "slow_by": args.slow_by, "modules": args.modules, "binary": str(pathlib.Path(args.binary).resolve())}
    for seed in args.seeds:
        for name, runs in results.items():
            run = {**settings, "candidate": name, "seed": seed}
            try:
                runs.append({**once(args, run), "seed": seed})
                print(f"seed {seed}: {name}: {json.dumps(runs[-1])}", file=sys.stderr)
            except RuntimeError as error:
                print(f"seed {seed}: {name} FAILED: {error}", file=sys.stderr)
    return results


def spread(values, form):
    text = form(statistics.median(values))
    return text if len(values) == 1 else f"{text} [{form(min(values))}-{form(max(values))}]"


def micros(value):
    return f"{value:.0f}"


def percent(value):
    return f"{value:.1f}"


def row(name, runs, seeds):
    failed = "" if len(runs) == seeds else f" ({seeds - len(runs)} of {seeds} runs failed)"
    if not runs:
        return f"| {name}{failed} | | | | |"
    cells = [" / ".join(spread([run[way][figure] for run in runs], micros) for figure in ("mean_us", "p50_us", "p99_us"))
             for way in ("read", "write")]
    hits = "–"
    if "hit_share" in runs[0]:
        hits = spread([run["hit_share"] * 100 for run in runs], percent) + " %"
    served = spread([run["read"]["iops"] + run["write"]["iops"] for run in runs], lambda iops: f"{iops:.0f}")
    return f"| {name}{failed} | {cells[0]} | {cells[1]} | {hits} | {served} |"


def table(args, results):
    where = "on the host, the pool slowed by the engine" if args.on_host else "in user-mode Linux"
    lines = [f"{LOAD['volume_mib']} MiB at {LOAD['delay_ms']} ms behind {LOAD['fast_mib']} MiB, {where}; 4 KiB at random, Zipf "
             f"{LOAD['zipf']}, {LOAD['read_percent']} % reads, {LOAD['iops']} requests a second offered ({args.submit}, "
             f"{args.requests}); {args.warmup} s of warm-up, {args.seconds} s measured; µs, median [least-most] of "
             f"{len(args.seeds)} seeds", "",
             "| | read mean / p50 / p99 | write mean / p50 / p99 | read hits | served, 1/s |", "|---|---|---|---:|---:|"]
    lines += [row(name, runs, len(args.seeds)) for name, runs in results.items()]
    endless = [run["hit_share_of_an_endless_cache"] * 100 for runs in results.values() for run in runs]
    lines += ["", f"An endless cache would have hit {spread(endless, percent)} % of the reads; the others were of blocks that "
              "nothing had touched before."]
    probed = [run for runs in results.values() for run in runs if "kernel" in run]
    if probed:
        found = spread([run["disk_alone_depth_1_us"] for run in probed], micros)
        lines += ["", f"Linux {probed[0]['kernel']}; a read of the disk alone at depth one took {found} µs."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["tiers"])
    parser.add_argument("built")
    parser.add_argument("kept")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=80)
    parser.add_argument("--only", default="")
    parser.add_argument("--submit", choices=["inline", "offload"], default="inline")
    parser.add_argument("--requests", choices=["fresh", "repeated"], default="fresh")
    parser.add_argument("--on-host", action="store_true")
    parser.add_argument("--kernel")
    parser.add_argument("--modules", default="/usr/lib/uml/modules")
    parser.add_argument("--slow-by", choices=["scsi-debug", "dm-delay"], default="scsi-debug")
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--binary")
    args = parser.parse_args()
    args.binary = args.binary or args.built
    if args.on_host and args.submit == "offload":
        sys.exit("on the host fio speaks NBD itself, and then it cannot offload: leave out --submit")
    need({"fio": "fio"} if args.on_host else TOOLS)
    args.kernel = None if args.on_host else find_kernel(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    results = measure(args)
    if not any(results.values()):
        sys.exit("no run has a result")
    rows = [{"candidate": name, "runs": runs} for name, runs in results.items()]
    json.dump({"table": table(args, results), "arguments": vars(args), "load": LOAD, "rows": rows}, sys.stdout)


main()
