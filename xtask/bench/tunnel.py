"""A set of files and its next version through a tunnel over a slow link, beside plain TCP and the laboratory's forecast.

    tunnel.py tunnel BINARY KEPT [--rounds N] [--mbit N] [--ms N] [--loss PER_MILLION,…] [--policy P] [--congestion WHICH] [--first FILE --second FILE]
              [--binary PATH] [--link PATH] [--router]

1. Two network namespaces with a TUN device between them, which the example `link` of thermocline-ports-os gives a rate, a delay each way
   and a loss; with --router a guest of user-mode Linux does it by netem instead, see tunnel_router.py. A server in one sends files, a client
   in the other takes them and compares SHA-256.
2. A round starts both ends anew, with empty caches, and takes in turn: both files by plain TCP, the first through the tunnel, the second.
   The kernel's counters of the devices say how many bytes went over the link; both ends' processor time comes from /proc.
3. `lab tunnel` sends the same files over a modelled link of that rate, delay and loss, with the congestion control that the kernel has: what
   it says of the second is what both take less what the first takes. What it says of plain TCP stands beside what the kernel took.

Without --first, the set is made of this machine's /usr/share/doc and /usr/lib/python3 (a tar of at most 110 MB), and the second version
has other times everywhere and 20 to 400 bytes put into one file of twenty. Needs root. Prints JSON; its `table` is what people read.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import tunnel_router
from balance_processes import cpu_seconds
from namespaces import inside, run

NEAR, FAR = "tcl-near", "tcl-far"
DEVICES = ("tcl0", "tcl1")
NEAR_ADDRESS, FAR_ADDRESS = "10.77.0.1", "10.77.0.2"
FILES, EXIT, DOOR = 9000, 7000, 7001
SET_BYTES = 110_000_000
# Seeds of losses that the laboratory plays.
FORECASTS = 9
ROOM_BYTES = 1 << 27


class Shaper:
    """The example `link`."""

    def __init__(self, args, loss, seed):
        words = [str(word) for word in (args.link, *DEVICES, args.mbit, args.ms, loss, seed)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("link"):
            raise SystemExit("the link does not start; it says why above")

    def end(self):
        self.process.kill()
        self.process.wait()


class Link:
    """The namespaces and what runs between them."""

    def __init__(self, args, loss, seed=1):
        self.close()
        for name in (NEAR, FAR):
            run("ip", "netns", "add", name)
        if args.router:
            self.between = tunnel_router.Router(DEVICES, (NEAR_ADDRESS, FAR_ADDRESS), args.mbit, args.ms, loss)
        else:
            self.between = Shaper(args, loss, seed)
        for device, name, address in zip(DEVICES, (NEAR, FAR), (NEAR_ADDRESS, FAR_ADDRESS)):
            run("ip", "link", "set", device, "netns", name)
            run("ip", "-n", name, "addr", "add", f"{address}/30", "dev", device)
            run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            if args.router:
                run("ip", "-n", name, "route", "add", tunnel_router.ADDRESS, "dev", device)

    def carried(self):
        """Bytes that came to the near side and left it."""
        said = subprocess.check_output(["ip", "-n", NEAR, "-j", "-s", "link", "show", "tcl0"])
        counters = json.loads(said)[0]["stats64"]
        return counters["rx"]["bytes"] + counters["tx"]["bytes"]

    @staticmethod
    def close():
        for name in (NEAR, FAR):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def end(self):
        self.between.end()
        self.close()


def serve(files, ready, congestion):
    """A connection asks by a byte, 0 or 1, and gets a length and that file."""
    inside(FAR)
    listener = socket.create_server((FAR_ADDRESS, FILES), backlog=16)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    ready.set()
    while True:
        connection, _ = listener.accept()
        with connection:
            which = connection.recv(1)
            if which:
                contents = files[which[0]]
                # Joined they would be copied first, which takes a tenth of a second.
                connection.sendall(struct.pack("<Q", len(contents)))
                connection.sendall(contents)


def fetch(address, which, digest):
    """Seconds from connecting to the last byte."""
    took, room = [], bytearray(b"\1") * ROOM_BYTES

    def body():
        inside(NEAR)
        began = time.monotonic()
        with socket.create_connection(address) as connection:
            connection.sendall(bytes([which]))
            # Room for the longest file is there before; hashing comes after the last byte.
            length = struct.unpack("<Q", connection.recv(8, socket.MSG_WAITALL))[0]
            at, left = memoryview(room)[:length], length
            while left:
                taken = connection.recv_into(at[length - left:])
                if not taken:
                    raise SystemExit("a transfer ended early")
                left -= taken
            took.append(time.monotonic() - began)
            if hashlib.sha256(at).digest() != digest:
                raise SystemExit("other bytes came than were sent")

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if not took:
        raise SystemExit("a transfer failed; it says why above")
    return took[0]


class Ends:
    """Both ends of a tunnel, new."""

    def __init__(self, args, folder):
        self.processes = []
        common = ["--policy", args.policy, "--log", "none", "--cache", "1GiB"]
        for name in ("enter", "exit"):
            run(args.binary, "tunnel", "keys", folder / name, stdout=subprocess.DEVNULL)

        def start(namespace, name, other, *words):
            words = [args.binary, "tunnel", name, *words, *common, "--key", folder / f"{name}.key", "--peer", folder / f"{other}.pub"]
            words += ["--socket", folder / f"{name}.sock"]
            words = ["ip", "netns", "exec", namespace] + [str(word) for word in words]
            self.processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))

        start(FAR, "exit", "enter", "--listen", f"{FAR_ADDRESS}:{EXIT}", "--allow", f"{FAR_ADDRESS}:{FILES}")
        start(NEAR, "enter", "exit", "--to", f"{FAR_ADDRESS}:{EXIT}", "--forward", f"{DOOR}={FAR_ADDRESS}:{FILES}")
        self.wait(args, folder)

    def wait(self, args, folder):
        """Until both ends have met."""
        for _ in range(1000):
            said = subprocess.run([args.binary, "tunnel", "status", "--socket", folder / "enter.sock", "--json"], capture_output=True, text=True)
            if said.returncode == 0 and any(link["is_up"] for link in json.loads(said.stdout)["links"]):
                return
            time.sleep(0.05)
        raise SystemExit(f"the ends do not meet: {said.stdout}{said.stderr}")

    def processor_s(self):
        """Processor time of the exit, which sends, and of the enter, in seconds."""
        return [cpu_seconds(process.pid) for process in self.processes]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def made_set():
    """A tar of this machine's files, and its next version."""
    dice = random.Random(1)
    first, second = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=first, mode="w") as old, tarfile.open(fileobj=second, mode="w") as new:
        for top in ("/usr/share/doc", "/usr/lib/python3", "/usr/share/perl", "/usr/lib/x86_64-linux-gnu"):
            for path in sorted(pathlib.Path(top).rglob("*")):
                if path.is_symlink() or not path.is_file() or first.tell() > SET_BYTES:
                    continue
                contents = path.read_bytes()
                entry = tarfile.TarInfo(str(path))
                entry.size, entry.mtime = len(contents), 1_700_000_000
                old.addfile(entry, io.BytesIO(contents))
                if dice.randrange(20) == 0:
                    at = dice.randrange(len(contents) + 1)
                    contents = contents[:at] + dice.randbytes(dice.randrange(20, 401)) + contents[at:]
                entry.size, entry.mtime = len(contents), 1_710_000_000
                new.addfile(entry, io.BytesIO(contents))
    return first.getvalue(), second.getvalue()


def forecast(args, paths, loss):
    """What the laboratory says: seconds of both files through the tunnel, and of the second by plain TCP. Medians over seeds of losses."""
    def play(names, seed):
        words = [args.binary, "lab", "tunnel", *names, "--policy", args.policy, "--rate", f"{args.mbit}Mbit", "--delay", f"{args.ms}ms"]
        words += ["--loss", f"{loss / 10_000}%", "--congestion", args.congestion, "--seed", seed, "--json"]
        return json.loads(subprocess.check_output([str(word) for word in words]))[0]

    told = []
    for seed in range(FORECASTS if loss else 1):
        first, both, plain = (play(names, seed) for names in (paths[:1], paths, paths[1:]))
        told.append({"plain_s": plain["plain_tcp_s"], "first_s": first["took_s"], "second_s": both["took_s"] - first["took_s"],
                     "first_far_s": first["processor_s"], "second_far_s": both["processor_s"] - first["processor_s"]})
    return {key: statistics.median(one[key] for one in told) for key in told[0]}


def one_loss(args, files, folder, loss):
    digests = [hashlib.sha256(contents).digest() for contents in files]
    rows = []
    for number in range(args.rounds):
        link = Link(args, loss, number + 1)
        try:
            ready = threading.Event()
            threading.Thread(target=serve, args=(files, ready, args.congestion), daemon=True).start()
            ready.wait()
            row = {}
            before = link.carried()
            row["plain_first_s"] = fetch((FAR_ADDRESS, FILES), 0, digests[0])
            row["plain_s"] = fetch((FAR_ADDRESS, FILES), 1, digests[1])
            row["plain_bytes"] = (link.carried() - before) // 2
            place = folder / f"{loss}-{number}"
            place.mkdir()
            ends = Ends(args, place)
            try:
                for which, name in enumerate(("first", "second")):
                    before, spent = link.carried(), ends.processor_s()
                    row[f"{name}_s"] = fetch(("127.0.0.1", DOOR), which, digests[which])
                    row[f"{name}_bytes"] = link.carried() - before
                    far, near = (after - before for after, before in zip(ends.processor_s(), spent))
                    row |= {f"{name}_processor_s": far + near, f"{name}_far_s": far, f"{name}_near_s": near}
            finally:
                ends.stop()
            row["times"] = row["plain_s"] / row["second_s"]
            rows.append(row)
            print(f"loss {loss} of a million, round {number + 1}: {row}", file=sys.stderr)
        finally:
            link.end()
    return rows


def table(measured, args, sizes, told):
    def spread(rows, key, form):
        values = [row[key] for row in rows]
        return f"{form.format(statistics.median(values))} ({form.format(min(values))}–{form.format(max(values))})"

    lines = [f"{sizes[0] / 1e6:.1f} and {sizes[1] / 1e6:.1f} MB, {args.mbit} Mbit/s, {args.ms} ms each way, policy {args.policy}; median (least–greatest) of {args.rounds} rounds; seconds", ""]
    lines += ["| loss | plain TCP, second | tunnel, first | tunnel, second | times faster | bytes of the second on the link | both ends' processor time |", "|---|---|---|---|---|---|---|"]
    for loss, rows in measured.items():
        cells = [spread(rows, "plain_s", "{:.2f}"), spread(rows, "first_s", "{:.2f}"), spread(rows, "second_s", "{:.2f}"), spread(rows, "times", "{:.1f}")]
        cells += [spread(rows, "second_bytes", "{:,.0f}"), spread(rows, "second_processor_s", "{:.2f}")]
        lines.append(f"| {int(loss) / 10_000} % | " + " | ".join(cells) + " |")
    lines += ["", "| loss | | live, s | the laboratory, s | beside live |", "|---|---|---:|---:|---:|"]
    for loss, rows in measured.items():
        for key, name in (("plain_s", "plain TCP, second"), ("first_s", "tunnel, first"), ("second_s", "tunnel, second"),
                          ("first_far_s", "processor time of the exit, first"), ("second_far_s", "processor time of the exit, second")):
            live = statistics.median(row[key] for row in rows)
            lines.append(f"| {int(loss) / 10_000} % | {name} | {live:.2f} | {told[loss][key]:.2f} | {told[loss][key] / live - 1:+.0%} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("built")
    parser.add_argument("kept")
    parser.add_argument("--binary")
    parser.add_argument("--link", help="the example `link`, where it is built already")
    parser.add_argument("--router", action="store_true", help="a guest with netem in place of the example `link`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mbit", type=int, default=100)
    parser.add_argument("--ms", type=int, default=20)
    parser.add_argument("--loss", default="0,1000,10000")
    parser.add_argument("--policy", default="content:size=2KiB")
    parser.add_argument("--congestion", default=pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip(),
                        help="of plain TCP and of the forecast; the tunnel's ends have what the kernel gives")
    parser.add_argument("--first")
    parser.add_argument("--second")
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise SystemExit("namespaces and TUN devices need root, and `ip` (iproute2)")
    if bool(args.first) != bool(args.second):
        raise SystemExit("--first and --second go together")
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    if args.router and tunnel_router.missing():
        raise SystemExit(f"the router needs the packages {', '.join(tunnel_router.missing())}")
    if not args.link and not args.router:
        root = pathlib.Path(__file__).resolve().parents[2]
        run("cargo", "build", "--release", "--package", "thermocline-ports-os", "--example", "link", cwd=root)
        args.link = root / "target" / "release" / "examples" / "link"
    files = [pathlib.Path(name).read_bytes() for name in (args.first, args.second)] if args.first else made_set()
    if max(map(len, files)) > ROOM_BYTES:
        raise SystemExit("a file may have 128 MiB")
    with tempfile.TemporaryDirectory(prefix="tcl-") as folder:
        folder = pathlib.Path(folder)
        paths = [folder / "old.tar", folder / "new.tar"]
        for path, contents in zip(paths, files):
            path.write_bytes(contents)
        told = {loss: forecast(args, paths, int(loss)) for loss in args.loss.split(",")}
        measured = {loss: one_loss(args, files, folder, int(loss)) for loss in args.loss.split(",")}
    sizes = [len(contents) for contents in files]
    print(json.dumps({"rounds": measured, "forecast_s": told, "bytes": sizes, "table": table(measured, args, sizes, told)}))


main()
