"""Thousands of open connections; and servers that die, hang, answer garbage, lie about their load and flap.

Connections: so many clients connect and say nothing; then each asks once, within two seconds; then all at the same moment; then they
leave. Memory, what asking takes and the processor time of keeping them, beside HAProxy and nginx before the same servers, each of which
gets 256 requests at a time, while others wait in the proxy. nginx has no such queue and is not asked by all at once.

Faults: six servers (balance_backend.py) with one request at a time, loaded to a sixth; one of ten requests is a POST, which must not be
repeated. Two balancers, one with active checks and one that only watches answers, get the same requests, each before servers of its own.
In each phase one server goes wrong, another one each time. Every answer is compared with what was asked. A request that has no answer
30 s after it was sent counts as stuck; an answer that is another request's as mixed up.
"""

import asyncio
import collections
import pathlib
import random
import signal
import sys
import time
import urllib.request

import balance_speed
from balance_processes import Programs, cpu_seconds, free_ports, machine, many_files, need, quantile, resident_bytes, say

ASK = b"GET /128 HTTP/1.1\r\nHost: servers\r\n\r\n"
IDLE_S = 4
# A connection that has not asked yet has until `header`; here they are to wait for each other.
QUEUE = '[timeouts]\nheader = "75s"\n[queue]\nlength = 16384\npatience = "30s"\n'
RATE_PER_S = 250
STUCK_S = 30
SERVERS = 6


async def open_all(port, count):
    gate = asyncio.Semaphore(200)

    async def one():
        async with gate:
            try:
                return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, limit=4096), 30)
            except (OSError, asyncio.TimeoutError):
                return None
    return await asyncio.gather(*(one() for _ in range(count)))


async def ask_all(clients, within_s):
    """(Longest, 99th percentile, errors): each asks at some moment `within_s`."""
    draw = random.Random(1)

    async def one(reader, writer):
        if within_s:
            await asyncio.sleep(draw.random() * within_s)
        start = time.monotonic()
        writer.write(ASK)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(128)
        if b" 200 " not in head:
            raise ValueError(head)
        return time.monotonic() - start
    done = await asyncio.gather(*(asyncio.wait_for(one(*client), 60) for client in clients), return_exceptions=True)
    took = sorted(one for one in done if isinstance(one, float))
    return took[-1], quantile(took, 0.99), len(done) - len(took)


async def crowd(port, process, count, has_queue):
    row = {"empty_bytes": resident_bytes(process.pid)}
    start = time.monotonic()
    clients = await open_all(port, count)
    row["open_s"] = time.monotonic() - start
    row["refused"] = clients.count(None)
    clients = [client for client in clients if client]
    await asyncio.sleep(1)
    row["idle_bytes"], cpu = resident_bytes(process.pid), cpu_seconds(process.pid)
    await asyncio.sleep(IDLE_S)
    row["idle_core"] = (cpu_seconds(process.pid) - cpu) / IDLE_S
    cpu = cpu_seconds(process.pid)
    row["longest_s"], row["p99_s"], row["errors"] = await ask_all(clients, 2)
    row["asked_bytes"], row["cpu_s"] = resident_bytes(process.pid), cpu_seconds(process.pid) - cpu
    if has_queue:
        row["at_once_longest_s"], row["at_once_p99_s"], at_once = await ask_all(clients, 0)
        row["errors"] += at_once
    for _, writer in clients:
        writer.close()
    await asyncio.sleep(2)
    row["left_bytes"], row["peak_bytes"] = resident_bytes(process.pid), resident_bytes(process.pid, "VmHWM")
    return row


def crowds(args, folder):
    rows = []
    with Programs(folder) as programs:
        ours, theirs, third, *ports = free_ports(7)
        balance_speed.servers(programs, ports, "0-1")
        started = [("thermocline", ours, programs.balancer(args.binary, "ours", ours, ports, "", QUEUE, each="requests = 256\n")),
                   ("HAProxy", theirs, balance_speed.haproxy(programs, theirs, ports, "0-1", " maxconn 256")),
                   ("nginx", third, balance_speed.nginx(programs, third, ports, "0-1"))]
        for name, port, process in started:
            rows.append({"proxy": name, **asyncio.run(crowd(port, process, args.connections, name != "nginx"))})
            say(str(rows[-1]))
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and under_way(programs.status(args.binary, "ours")):
            time.sleep(0.2)
        rows[0]["under_way_after"] = under_way(programs.status(args.binary, "ours"))
    return rows


def under_way(status):
    return sum(backend["outstanding"] for backend in status["backends"])


class Side:
    """A balancer with its servers and what clients saw of it."""

    def __init__(self, name, door, ports, programs):
        self.name, self.door, self.ports, self.programs = name, door, ports, programs
        self.servers = [None] * len(ports)
        self.idle = collections.deque()
        self.seen = None

    def start(self, index):
        script = pathlib.Path(__file__).with_name("balance_backend.py")
        self.servers[index] = self.programs.start([sys.executable, str(script), str(self.ports[index])], f"{self.name}-{index}")

    def mode(self, index, name):
        urllib.request.urlopen(f"http://127.0.0.1:{self.ports[index]}/mode/{name}", timeout=5).read()

    async def ask(self, path, is_post, phase):
        start = time.monotonic()
        try:
            async with asyncio.timeout(STUCK_S):
                what = await self.exchange(path, is_post)
        except TimeoutError:
            what = "stuck"
        except (OSError, EOFError, asyncio.IncompleteReadError, ValueError, IndexError):
            what = "cut off"
        phase["longest_s"] = max(phase["longest_s"], time.monotonic() - start)
        phase["took"].append(time.monotonic() - start)
        phase["POST" if is_post else "GET"][what] += 1

    async def exchange(self, path, is_post):
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", self.door)
        how, more, body = ("POST", "Content-Length: 64\r\n", b"x" * 64) if is_post else ("GET", "", b"")
        writer.write(f"{how} {path} HTTP/1.1\r\nHost: servers\r\n{more}\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = head.split(b" ")[1].decode()
        if b"content-length:" in head:
            answer = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        else:  # only what breaks off
            answer = await reader.read()
            raise EOFError if status == "200" else ValueError
        if b"connection: close" in head:
            writer.close()
        else:
            self.idle.append((reader, writer))
        return "mixed up" if status == "200" and answer.decode(errors="replace") != path else status


def phases(side):
    """Name, which server, what makes it go wrong, what heals it, and what happens meanwhile, twice a second."""
    def kill(index):
        side.servers[index].kill()
        side.servers[index].wait()

    def flap(index, beat):
        if beat % 4 == 0:
            kill(index)
        elif beat % 4 == 2:
            side.start(index)

    def stop(index):
        side.servers[index].send_signal(signal.SIGSTOP)

    def go_on(index):
        side.servers[index].send_signal(signal.SIGCONT)

    def mode(name):
        return lambda index: side.mode(index, name)

    def nothing(*_):
        pass

    def up(index):
        if side.servers[index].poll() is not None:
            side.start(index)

    return [("all well", 5, nothing, nothing, nothing),
            ("killed", 0, kill, up, nothing),
            ("hangs (SIGSTOP)", 1, stop, go_on, nothing),
            ("answers garbage", 2, mode("garbage"), mode("good"), nothing),
            ("flaps: 1 s up, 1 s down", 3, nothing, up, flap),
            ("reports that nothing waits", 4, mode("modest"), mode("good"), nothing),
            ("reports 1,048,576 waiting", 4, mode("boastful"), mode("good"), nothing),
            ("reports what is no report", 4, mode("babbling"), mode("good"), nothing),
            ("slow: 0.5 s a request", 4, mode("slow"), mode("good"), nothing),
            ("all hang for 2 s", None, nothing, nothing, None)]


async def hang_all(sides, loop):
    for side in sides:
        for server in side.servers:
            server.send_signal(signal.SIGSTOP)
    await asyncio.sleep(2)
    for side in sides:
        for server in side.servers:
            server.send_signal(signal.SIGCONT)


async def fault(args, sides, index, draw):
    """One phase on both sides; their counts."""
    loop, tasks = asyncio.get_running_loop(), []
    plans = [phases(side)[index] for side in sides]
    now = [{"phase": plan[0], "side": side.name, "GET": collections.Counter(), "POST": collections.Counter(), "took": [], "longest_s": 0.0}
           for side, plan in zip(sides, plans)]
    background = None
    for side, (_, server, breaks, _, meanwhile) in zip(sides, plans):
        if meanwhile is not None:
            await loop.run_in_executor(None, breaks, server)
    if plans[0][4] is None:
        background = loop.create_task(hang_all(sides, loop))
    start, beat, due = loop.time(), -1, 0.0
    while due < args.seconds:
        await asyncio.sleep(start + due - loop.time())
        if int(due * 2) > beat:
            beat = int(due * 2)
            for side, plan in zip(sides, plans):
                if plan[4] is not None:
                    await loop.run_in_executor(None, plan[4], *(() if plan[4].__name__ == "nothing" else (plan[1], beat)))
        path, is_post = f"/{index}-{due:.4f}", draw.random() < 0.1
        tasks += [loop.create_task(side.ask(path, is_post, phase)) for side, phase in zip(sides, now)]
        due += draw.expovariate(RATE_PER_S)
    await asyncio.gather(*tasks, *([background] if background else []))
    for side, plan in zip(sides, plans):
        if plan[1] is not None:
            await loop.run_in_executor(None, plan[3], plan[1])
    await asyncio.sleep(2)
    return now


CONFIG = '[timeouts]\nfirst-byte = "1s"\nconnect = "500ms"\n[load]\npoll = "/load"\ninterval = "1s"\n'
CHECK = '[check]\npath = "/health"\ninterval = "500ms"\ntimeout = "500ms"\n'


def faults(args, folder):
    rows = []
    with Programs(folder) as programs:
        sides = []
        for name, extra in (("checks", CHECK), ("answers only", "")):
            door, *ports = free_ports(1 + SERVERS)
            name = name.replace(" ", "-")
            side = Side(name, door, ports, programs)
            for index, port in enumerate(ports):
                side.start(index)
                programs.wait_for(side.servers[index], name, port)
            programs.balancer(args.binary, name, door, ports, "", CONFIG + extra)
            sides.append(side)
        time.sleep(3)
        draw = random.Random(1)

        async def all_phases():
            for index in range(len(phases(sides[0]))):
                rows.extend(await fault(args, sides, index, draw))
                for row in rows[-2:]:
                    row["states"] = [(b["name"], b["state"]) for b in programs.status(args.binary, row["side"])["backends"]]
                    say(f"{row['phase']}: {row['side']}: GET {dict(row['GET'])} POST {dict(row['POST'])} longest {row['longest_s']:.2f} s")
        asyncio.run(all_phases())
        left = {side.name: under_way(programs.status(args.binary, side.name)) for side in sides}
    return rows, left


def crowds_table(rows, args):
    text = (f"{args.connections} connections, idle and then asking all at once; one thread each; {machine()}\n\n"
            "| proxy | opened in, s | memory empty, MiB | idle | after asking | after leaving | KiB a connection, idle | idle core | CPU of asking once, s | p99, s | longest "
            "| all at once: p99, s | longest | refused | errors |\n" + "|---|" + "---:|" * 13 + "\n")
    for row in rows:
        mib = [row[key] / 2**20 for key in ("empty_bytes", "idle_bytes", "asked_bytes", "left_bytes")]
        each = (row["idle_bytes"] - row["empty_bytes"]) / args.connections / 1024
        text += (f"| {row['proxy']} | {row['open_s']:.1f} | " + " | ".join(f"{value:.0f}" for value in mib) + f" | {each:.1f} | {row['idle_core']:.3f} | {row['cpu_s']:.2f} | {row['p99_s']:.2f} "
                 f"| {row['longest_s']:.2f} | {row.get('at_once_p99_s', float('nan')):.2f} | {row.get('at_once_longest_s', float('nan')):.2f} "
                 f"| {row['refused']} | {row['errors']} |\n")
    return text + f"\nUnder way when they had left: {rows[0]['under_way_after']}\n"


def faults_table(broken, left, args):
    text = (
        f"Faults: {SERVERS} servers, {RATE_PER_S} requests a second, {args.seconds} s each; what was not answered with 200; {machine()}\n\n"
        "| one server … | balancer | GET | not 200 | POST | not 200 | p99, ms | longest, s |\n|---|---|---:|---|---:|---|---:|---:|\n")
    for row in broken:
        wrong = [", ".join(f"{count} {what}" for what, count in sorted(row[how].items()) if what != "200") or "0" for how in ("GET", "POST")]
        text += (f"| {row['phase']} | {row['side']} | {sum(row['GET'].values())} | {wrong[0]} | {sum(row['POST'].values())} | {wrong[1]} "
                 f"| {quantile(sorted(row['took']), 0.99) * 1e3:.0f} | {row['longest_s']:.2f} |\n")
    return text + f"\nUnder way at the end: {left}\n"


def run(args, folder):
    need("haproxy", "nginx", "wrk", "taskset")
    many_files()
    rows = crowds(args, folder) if args.only != "faults" else []
    broken, left = faults(args, folder) if args.only != "crowd" else ([], {})
    for row in broken:
        row["took"] = sorted(row["took"])
    text = (crowds_table(rows, args) if rows else "") + ("\n" if rows and broken else "") + (faults_table(broken, left, args) if broken else "")
    return text, {"connections": rows, "faults": broken}
