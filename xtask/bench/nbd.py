"""NBD servers side by side, with fio's nbd engine over a unix socket.

    nbd.py nbd BINARY FOLDER [--repeats N] [--seconds S] [--size-mib M] [--disk DIR] [--only WORD,…] [--old BINARY]
    nbd.py moving BINARY FOLDER [--seconds S] [--gib G] [--disk DIR]

`nbd`: three groups, each on the same file system: memory (tmpfs), files through the page cache, files past it. Rounds are
interleaved: every server gets every load once before the next round begins, in an order that turns round each time. A server's processor time is read from /proc before and
after each load, with that of its kernel threads, and divided by the requests. With --old BINARY an earlier build of ours runs beside
them, for processor time in pairs on a machine that others use.

`moving`: latency of a load while G GiB are moved between two pools, beside the same load alone.

Prints JSON; its `table` is what people read.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# Way, block size, queue depth, connections; each connection has the depth for itself.
LOADS = [("randread", "4k", 1, 1), ("randwrite", "4k", 1, 1), ("randread", "4k", 32, 1), ("randwrite", "4k", 32, 1),
         ("read", "128k", 8, 1), ("write", "128k", 8, 1), ("read", "1m", 8, 1), ("write", "1m", 8, 1),
         ("randread", "4k", 8, 4), ("randwrite", "4k", 8, 4)]
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def wait_for(path, process):
    for _ in range(400):
        if path.exists():
            return
        if process.poll() is not None:
            sys.exit(f"a server ended with {process.returncode} before it listened on {path}")
        time.sleep(0.05)
    sys.exit(f"nobody listens on {path}")


def fio(uri, load, seconds, size_mib, extra=()):
    how, block, depth, connections = load
    command = ["fio", "--name=load", f"--numjobs={connections}", "--group_reporting", "--ioengine=nbd", f"--uri={uri}", f"--rw={how}", f"--bs={block}",
               f"--iodepth={depth}", f"--size={size_mib}m", "--randrepeat=0", "--output-format=json", *extra]
    if seconds:
        command += ["--time_based", f"--runtime={seconds}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"fio failed: {done.stderr or done.stdout}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    sides = [job["read"], job["write"]]
    return {
        "ios": sum(side["total_ios"] for side in sides),
        "iops": sum(side["iops"] for side in sides),
        "bytes": sum(side["bw_bytes"] for side in sides),
        "p99_us": max(side["clat_ns"].get("percentile", {}).get("99.000000", 0) for side in sides) / 1e3,
        "max_us": max(side["clat_ns"].get("max", 0) for side in sides) / 1e3,
    }


class Server:
    def __init__(self, name, group, folder, size_mib):
        self.name, self.group, self.folder, self.size_mib = name, group, folder, size_mib
        folder.mkdir(parents=True)
        self.socket = folder / "nbd.sock"
        self.image = folder / "image"
        self.uri = f"nbd+unix:///?socket={self.socket}"

    def start(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.socket, self.process)
        fio(self.uri, ("write", "1m", 4, 1), 0, self.size_mib)
        return self

    def make_image(self):
        with open(self.image, "wb") as image:
            image.truncate(self.size_mib << 20)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ours(binary, server, buffered, extra=""):
    toml = server.folder / "up.toml"
    toml.write_text(f"""data = "{server.folder}"
[[pool]]
name = "file"
size = "{server.size_mib + 256}MiB"
buffered = {str(buffered).lower()}
{extra}
[[volume]]
size = "{server.size_mib}MiB"
""")
    return server.start([binary, "up", str(toml), "--log", "none"])


def servers(args, memory, disk):
    def new(name, group, under):
        return Server(name, group, under / name.replace(" ", "-").replace(",", ""), args.size_mib)

    def nbdkit(name, group, under, plugin):
        server = new(name, group, under)
        if plugin == "file":
            server.make_image()
        what = ["file", str(server.image)] if plugin == "file" else ["memory", f"{args.size_mib}m"]
        return server.start(["nbdkit", "-f", "-U", str(server.socket), *what])

    def qemu(name, group, under, cache, aio):
        server = new(name, group, under)
        server.make_image()
        return server.start(["qemu-nbd", "-t", "-f", "raw", "-k", str(server.socket), f"--cache={cache}",
                             f"--aio={aio}", "-e", "8", str(server.image)])

    if args.old:
        yield lambda: ours(args.old, new("earlier, tmpfs", "memory", memory), False)
        yield lambda: ours(args.old, new("earlier, buffered", "page cache", disk), True)
        yield lambda: ours(args.old, new("earlier, direct", "direct", disk), False)
    yield lambda: ours(args.binary, new("thermocline, tmpfs", "memory", memory), False)
    yield lambda: nbdkit("nbdkit memory", "memory", memory, "memory")
    yield lambda: nbdkit("nbdkit file, tmpfs", "memory", memory, "file")
    yield lambda: ours(args.binary, new("thermocline, buffered", "page cache", disk), True)
    yield lambda: nbdkit("nbdkit file", "page cache", disk, "file")
    yield lambda: qemu("qemu-nbd threads", "page cache", disk, "writeback", "threads")
    yield lambda: ours(args.binary, new("thermocline, direct", "direct", disk), False)
    yield lambda: qemu("qemu-nbd io_uring", "direct", disk, "none", "io_uring")
    yield lambda: qemu("qemu-nbd native", "direct", disk, "none", "native")


def side_by_side(args, memory, disk):
    words = args.only.split(",") if args.only else []
    running = []
    results = {}
    try:
        for make in servers(args, memory, disk):
            server = make()
            if words and not any(word in server.name for word in words):
                server.stop()
                continue
            running.append(server)
        for repeat in range(args.repeats):
            for load in LOADS:
                # In both orders: whoever comes after an idle server is the slower for it.
                for server in running if repeat % 2 == 0 else running[::-1]:
                    before = cpu_seconds(server.process.pid)
                    got = fio(server.uri, load, args.seconds, args.size_mib)
                    used = cpu_seconds(server.process.pid) - before
                    got["cpu_us"] = used / max(got["ios"], 1) * 1e6
                    results.setdefault((server.group, server.name), {}).setdefault(load, []).append(got)
                    print(f"round {repeat + 1}: {server.name}: {' '.join(map(str, load))}: "
                          f"{got['iops'] / 1e3:.1f} k, {got['cpu_us']:.1f} us", file=sys.stderr)
    finally:
        for server in running:
            server.stop()
    return results


def spread(values):
    return statistics.median(values), min(values), max(values)


def table(results):
    lines = []
    rows = []
    for load in LOADS:
        how, block, depth, connections = load
        lines.append(f"{how} {block}, queue depth {depth}" + (f", {connections} connections" if connections > 1 else ""))
        for (group, name), loads in results.items():
            runs = loads[load]
            iops, low, high = spread([run["iops"] for run in runs])
            cpu, cpu_low, cpu_high = spread([run["cpu_us"] for run in runs])
            p99 = statistics.median(run["p99_us"] for run in runs)
            megabytes = statistics.median(run["bytes"] for run in runs) / 1e6
            lines.append(f"  {group:11} {name:22} {iops / 1e3:7.1f} k/s [{low / 1e3:.1f}, {high / 1e3:.1f}]  {megabytes:6.0f} MB/s  "
                         f"p99 {p99:7.0f} us  cpu {cpu:5.1f} us [{cpu_low:.1f}, {cpu_high:.1f}]")
            rows.append({"load": " ".join(map(str, load)), "group": group, "server": name, "runs": runs})
    return "\n".join(lines) + "\n", rows


def moving(args, disk):
    size = args.gib * 1024
    args.size_mib = size
    server = Server("moving", "direct", disk / "moving", size)
    extra = f'[[pool]]\nname = "slow"\nsize = "{size + 256}MiB"\n'
    ours(args.binary, server, False, extra)
    phases = []
    try:
        load = ("randrw", "4k", 8, 1)
        rate = ("--rate_iops=" + str(args.rate),) if args.rate else ()
        for phase in ["still", "moving", "still", "moving"]:
            jobs = []
            if phase == "moving":
                to = "slow" if sum(p["phase"] == "moving" for p in phases) % 2 == 0 else "file"
                command = [args.binary, "migrate", "v0", "--to", to, "--wait", "--json", "--data", str(server.folder)]
                started = time.monotonic()
                jobs.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            got = fio(server.uri, load, args.seconds, size, rate)
            got["phase"] = phase
            if jobs:
                got["job"] = json.loads(jobs[0].communicate()[0])
                got["job_seconds"] = time.monotonic() - started
            phases.append(got)
            print(phase, {k: v for k, v in got.items() if k != "job"}, file=sys.stderr)
    finally:
        server.stop()
    lines = []
    for got in phases:
        moved = ""
        if "job" in got:
            moved = f"  {got['job']['done']} of {got['job']['chunks']} chunks moved in {got['job_seconds']:.0f} s"
        lines.append(f"{got['phase']:7} {got['iops'] / 1e3:6.1f} k/s  p99 {got['p99_us']:7.0f} us  max {got['max_us'] / 1e3:6.1f} ms{moved}")
    return "\n".join(lines) + "\n", phases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["nbd", "moving"])
    parser.add_argument("binary")
    parser.add_argument("folder")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--size-mib", type=int, default=512)
    parser.add_argument("--gib", type=int, default=10)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--disk")
    parser.add_argument("--only", default="")
    parser.add_argument("--old")
    args = parser.parse_args()
    for tool in ["fio"] + (["nbdkit", "qemu-nbd"] if args.what == "nbd" else []):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not here; install the packages fio, nbdkit and qemu-utils")
    disk = pathlib.Path(tempfile.mkdtemp(prefix="nbd-", dir=args.disk or args.folder)).resolve()
    memory = pathlib.Path(tempfile.mkdtemp(prefix="nbd-", dir="/dev/shm"))
    try:
        if args.what == "nbd":
            text, rows = table(side_by_side(args, memory, disk))
        else:
            text, rows = moving(args, disk)
    finally:
        shutil.rmtree(disk, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    json.dump({"table": text, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main()
