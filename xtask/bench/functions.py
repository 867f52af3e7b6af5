"""A live pool of accelerators beside the kernel's masquerade, between three network namespaces.

    functions.py functions BINARY KEPT [--rounds N] [--seconds N] [--binary PATH]

1. A client, a router and a server are namespaces with veth pairs between them. The router is the kernel with nftables' masquerade (conntrack), or
   `thermocline accel` with a chain `nat`, or `nat` and `dpi` with 100 rules of one literal each.
2. Load: one process sends UDP of 64 flows, 32 packets a system call, as fast as it can. What arrives at the server's interface counts; a socket there
   takes it, and drops what nobody reads. Processor seconds are those of the whole machine (/proc/stat), because the kernel's routing happens in the
   sender's time and in soft interrupts: the sender's share is in every row.
3. Latency: one packet to and fro at a time, 2,000 of them, after 200 that do not count.

Rows are taken in turn in each round. Needs root, `ip` and `nft`. Prints JSON; its `table` is what people read.
"""

import argparse
import ctypes
import json
import os
import pathlib
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time

import balance_processes
from namespaces import LIBC, inside, run

NAMES = ("tcf-client", "tcf-router", "tcf-server")
CLIENT, ROUTER, SERVER = NAMES
SERVER_ADDRESS, SINK, ECHO = "198.51.100.2", 9, 7
FLOWS, BATCH = 64, 32
SIZES = (64, 1460)
CHAINS = {"kernel, masquerade": None, "pool, nat": ["nat"], "pool, nat and dpi": ["nat", "dpi"]}
HEADERS = 28


def ip(*words):
    run("ip", *words)


def forked(name, work):
    """The process of `work` in a namespace."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        inside(name)
        work()
    finally:
        os._exit(1)


def end(child):
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Vector)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int)]


class Message(ctypes.Structure):
    _fields_ = [("header", Header), ("length", ctypes.c_uint)]


def flood(size):
    """Sends for ever: IP packets of `size` bytes."""
    payload = ctypes.create_string_buffer(b"x" * (size - HEADERS), size - HEADERS)
    vector = Vector(ctypes.cast(payload, ctypes.c_void_p), size - HEADERS)
    messages = (Message * BATCH)()
    for message in messages:
        message.header.iov = ctypes.pointer(vector)
        message.header.iovlen = 1
    sockets = []
    for _ in range(FLOWS):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.connect((SERVER_ADDRESS, SINK))
        sockets.append(one)
    numbers = [one.fileno() for one in sockets]
    while True:
        for number in numbers:
            LIBC.sendmmsg(number, messages, BATCH, 0)


def serve():
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sink.bind((SERVER_ADDRESS, SINK))
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind((SERVER_ADDRESS, ECHO))
    while True:
        data, source = echo.recvfrom(2048)
        echo.sendto(data, source)


def pinged(size, pipe):
    """Writes the microseconds of 2,000 packets to and fro into a pipe."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(1)
    one.connect((SERVER_ADDRESS, ECHO))
    data, took = b"y" * (size - HEADERS), []
    lost = 0
    while len(took) < 2200 and lost < 100:
        start = time.perf_counter()
        one.send(data)
        try:
            one.recv(2048)
        except TimeoutError:
            lost += 1
            continue
        took.append((time.perf_counter() - start) * 1e6)
    with os.fdopen(pipe, "w") as out:
        json.dump(took[200:], out)
    os._exit(0)


def wire():
    unwire()
    for name in NAMES:
        ip("netns", "add", name)
    for inner, outer, name in (("c0", "in0", CLIENT), ("s0", "out0", SERVER)):
        ip("-n", name, "link", "add", inner, "type", "veth", "peer", "name", outer, "netns", ROUTER)
    for name, device, address in ((CLIENT, "c0", "10.0.0.2/24"), (SERVER, "s0", f"{SERVER_ADDRESS}/24")):
        ip("-n", name, "addr", "add", address, "dev", device)
        ip("-n", name, "link", "set", device, "up")
        ip("-n", name, "link", "set", "lo", "up")
    for device in ("in0", "out0"):
        ip("-n", ROUTER, "link", "set", device, "up")
    ip("-n", CLIENT, "route", "add", "default", "via", "10.0.0.1")


def unwire():
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


class Kernel:
    def __init__(self):
        for device, address in (("in0", "10.0.0.1/24"), ("out0", "198.51.100.1/24")):
            ip("-n", ROUTER, "addr", "add", address, "dev", device)
        within = ["ip", "netns", "exec", ROUTER]
        run(*within, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        rules = 'table ip t {\nchain c {\ntype nat hook postrouting priority 100\noifname "out0" masquerade\n}\n}\n'
        run(*within, "nft", "-f", "-", input=rules, text=True)

    def end(self):
        within = ["ip", "netns", "exec", ROUTER]
        run(*within, "nft", "flush", "ruleset")
        run(*within, "sysctl", "-qw", "net.ipv4.ip_forward=0")
        for device in ("in0", "out0"):
            ip("-n", ROUTER, "addr", "flush", "dev", device)


class Pool:
    def __init__(self, binary, chain, folder):
        folder = pathlib.Path(folder)
        rules = "".join(f'alert udp any any -> any any (msg:"r{n}"; content:"literal-{n:04}"; sid:{n + 1};)\n' for n in range(100))
        (folder / "rules").write_text(rules)
        (folder / "pool.toml").write_text(f"""state = "state"
rules = "rules"
[inside]
interface = "packet:in0"
address = "10.0.0.1/24"
[outside]
interface = "packet:out0"
address = "198.51.100.1/24"
[[card]]
name = "card0"
slots = 2
[[tenant]]
name = "a"
networks = ["10.0.0.0/24"]
external = ["198.51.100.10"]
chain = {json.dumps(chain)}
""")
        words = ["ip", "netns", "exec", ROUTER, str(binary), "accel", "up", "pool.toml"]
        self.process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while not (folder / "thermocline-accel.sock").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the pool does not start: {self.process.stderr.read()}")
            time.sleep(0.05)

    def end(self):
        self.process.terminate()
        self.process.wait()


def busy():
    """Processor seconds that the machine has worked: user, nice, system, interrupts."""
    words = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, hard, soft = map(int, words[:7])
    return (user + nice + system + hard + soft) / os.sysconf("SC_CLK_TCK")


def arrived():
    text = run("ip", "-n", SERVER, "-s", "-j", "link", "show", "s0", capture_output=True, text=True).stdout
    return json.loads(text)[0]["stats64"]["rx"]["packets"]


def loaded(size, seconds, count=arrived):
    """Packets that `count` counts, a second and a processor second, while one process sends."""
    child = forked(CLIENT, lambda: flood(size))
    time.sleep(1)
    packets, processor, start = count(), busy(), time.monotonic()
    time.sleep(seconds)
    packets, processor, took = count() - packets, busy() - processor, time.monotonic() - start
    end(child)
    return {"a_second": packets / took, "a_cpu_second": packets / processor if processor else 0.0}


def latency(size):
    reader, writer = os.pipe()
    child = forked(CLIENT, lambda: pinged(size, writer))
    os.close(writer)
    with os.fdopen(reader) as out:
        took = sorted(json.load(out))
    os.waitpid(child, 0)
    if not took:
        raise SystemExit("no packet came back")
    return {"p50_us": took[len(took) // 2], "p99_us": took[len(took) * 99 // 100]}


def measured(args, chain, size):
    with tempfile.TemporaryDirectory() as folder:
        router = Kernel() if chain is None else Pool(args.binary, chain, folder)
        try:
            return {**latency(size), **loaded(size, args.seconds)}
        finally:
            router.end()


def spread(values, digits=0):
    middle, least, most = (f"{value:,.{digits}f}" for value in balance_processes.spread(values))
    return f"{middle} ({least} to {most})"


def table(figures):
    lines = ["| router | packet | packets a second | packets a CPU second | beside the kernel | p50, µs | p99, µs |", "|---|---:|---|---|---:|---|---|"]
    for row in CHAINS:
        for size in SIZES:
            rounds = figures[row][size]
            beside = [one["a_cpu_second"] / kernel["a_cpu_second"] for one, kernel in zip(rounds, figures["kernel, masquerade"][size])]
            columns = [row, f"{size} B", spread([one["a_second"] for one in rounds]), spread([one["a_cpu_second"] for one in rounds]),
                       f"{statistics.median(beside):.2f}", spread([one["p50_us"] for one in rounds], 1), spread([one["p99_us"] for one in rounds], 1)]
            lines.append("| " + " | ".join(columns) + " |")
    return "\n".join(lines) + "\n"


def kept_pool(folder):
    """Packets a CPU second of the pool with `nat`, by size, as the last run of this script left them: median, least and greatest."""
    path = folder / "functions.json"
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["figures"]["pool, nat"]
    return {int(size): balance_processes.spread([one["a_cpu_second"] for one in rounds]) for size, rounds in rows.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["functions"])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("kept", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--binary", type=pathlib.Path, dest="other")
    args = parser.parse_args()
    args.binary = (args.other or args.binary).resolve()
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root")
    figures = {row: {size: [] for size in SIZES} for row in CHAINS}
    server = None
    try:
        wire()
        server = forked(SERVER, serve)
        for _ in range(args.rounds):
            for row, chain in CHAINS.items():
                for size in SIZES:
                    figures[row][size].append(measured(args, chain, size))
    finally:
        if server:
            end(server)
        unwire()
    print(json.dumps({"figures": figures, "table": table(figures)}))


if __name__ == "__main__":
    main()
