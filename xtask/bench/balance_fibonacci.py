"""The experiment of 001 §3.3 with our programs: eight workers that compute Fibonacci numbers over HTTP, and clients in bursts.

1. Each policy has eight workers of its own (processes; balance_worker.py tells how their shares of the processor are made equal and
   independent of each other) and one `thermocline balance`, or several before the same workers. It fetches the load each second.
2. Clients are an open loop: requests come at the times of a seeded MMPP(2), in the proportions of docs/guides/lab-balance.md, whatever
   became of earlier ones. Their numbers make the work of a request exponential.
3. All policies get the same requests at the same moments, side by side: what disturbs the machine disturbs all of them. Repeats have
   seeds of their own and come one after the other. Every answer is checked.
4. `lab balance` with the same parameters says what is to be expected.

What is counted: from the moment when a request was due to the last byte of its answer.
"""

import asyncio
import collections
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import time
import urllib.request

from balance_processes import Programs, free_ports, machine, many_files, quantile, say, spread

POLICIES = "rand,qlen,qlen:ties=first,ara,ara:high=4,ara:high=4:ties=first,least,water-fill"
WORKERS = 8
LOAD = 0.41  # the utilization that the source measured
CALLS_PER_S = 50_000  # of a worker: less than a hundredth of a core
SETTLE_S = 2.5  # reports come each second


CALLS, NUMBERS = [1, 1], [0, 1]
while len(CALLS) < 40:
    CALLS.append(CALLS[-1] + CALLS[-2] + 1)
    NUMBERS.append(NUMBERS[-1] + NUMBERS[-2])


class Load:
    """Requests: how long they take, and the MMPP(2) by which they come."""

    def __init__(self, args):
        self.service_s, self.index, self.share, self.burst_s = args.service, args.index, args.share, args.burst
        self.gap_s = self.service_s / (WORKERS * LOAD)

    def rates(self):
        """Of requests in bursts and outside, and of leaving each state."""
        c = (self.index - 1) / (2 / self.gap_s * self.burst_s)
        b = 2 * self.share + c
        p = (b - math.sqrt(b * b - 4 * self.share * self.share)) / 2
        return self.share / self.gap_s / p, (1 - self.share) / self.gap_s / (1 - p), 1 / self.burst_s, p / ((1 - p) * self.burst_s)

    def arrivals(self, seed, seconds):
        """Times of requests; the process begins in its stationary state."""
        draw = random.Random(f"arrivals {seed}")
        burst, calm, leave, enter = self.rates()
        is_burst = draw.random() < enter / (enter + leave)
        now, times = 0.0, []
        while True:
            rate, change = (burst, leave) if is_burst else (calm, enter)
            now += draw.expovariate(rate + change)
            if now >= seconds:
                return times
            if draw.random() < change / (rate + change):
                is_burst = not is_burst
            else:
                times.append(now)

    def number(self, draw):
        """The index of a Fibonacci number; the mean of its calls is exponential's, between neighbours by chance."""
        wanted = draw.expovariate(1 / (self.service_s * CALLS_PER_S))
        n = max(i for i in range(1, 39) if CALLS[i] <= max(wanted, 1))
        return n + (draw.random() < (wanted - CALLS[n]) / (CALLS[n + 1] - CALLS[n]))


class Group:
    """A policy with its workers and balancers, as clients see it."""

    def __init__(self, policy, doors):
        self.policy, self.doors = policy, doors
        self.idle = [collections.deque() for _ in doors]
        self.took, self.wrong = [], collections.Counter()

    async def ask(self, door, n, due):
        try:
            if self.idle[door]:
                reader, writer = self.idle[door].pop()
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.doors[door])
            writer.write(f"GET /{n} HTTP/1.1\r\nHost: workers\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            status = head.split(b" ")[1].decode()
            if status != "200" or int(body) != NUMBERS[n]:
                self.wrong[status] += 1
            self.took.append(asyncio.get_running_loop().time() - due)
            self.idle[door].append((reader, writer))
        except (OSError, EOFError, ValueError, IndexError) as error:
            self.wrong[type(error).__name__] += 1

    def close(self):
        for pool in self.idle:
            for _, writer in pool:
                writer.close()


async def clients(load, groups, seed, seconds):
    """One repeat; (requests, the worst delay with which one was sent)."""
    draw = random.Random(f"work {seed}")
    loop = asyncio.get_running_loop()
    start, asked, late = loop.time() + 0.1, set(), 0.0
    times = load.arrivals(seed, seconds)
    for at in times:
        await asyncio.sleep(start + at - loop.time())
        late = max(late, loop.time() - start - at)
        n, door = load.number(draw), draw.random()
        for group in groups:
            asked.add(loop.create_task(group.ask(int(door * len(group.doors)), n, start + at)))
    _, stuck = await asyncio.wait(asked, timeout=120)
    for task in stuck:
        task.cancel()
    for group in groups:
        group.close()
    return len(times), late, len(stuck)


def loads(ports):
    return [json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/load").read()) for port in ports]


def repeat(args, programs, seed, workers):
    """All policies with all numbers of balancers, at once."""
    groups, started = {}, []
    for (policy, count), ports in workers.items():
        doors = free_ports(count)
        for index, door in enumerate(doors):
            name = f"{policy.replace(':', '-')}-{count}-{index}-{seed}"
            top = f'policy = "{policy}"'
            tables = '[load]\npoll = "/load"\ninterval = "1s"\n[timeouts]\nfirst-byte = "300s"\nkeep-alive = "1h"\n[upstream]\nidle-connections = 1024\n'
            started.append(programs.balancer(args.binary, name, door, ports, top, tables))
        groups[policy, count] = Group(policy, doors)
    before = {key: loads(ports) for key, ports in workers.items()}
    time.sleep(SETTLE_S)
    requests, late, stuck = asyncio.run(clients(Load(args), groups.values(), seed, args.seconds))
    rows = []
    for (policy, count), group in groups.items():
        now = loads(workers[policy, count])
        shares = [(a["busy_s"] - b["busy_s"]) / args.seconds for a, b in zip(now, before[policy, count])]
        pieces = sum(a["pieces"] - b["pieces"] for a, b in zip(now, before[policy, count]))
        behind = sum(a["late_s"] - b["late_s"] for a, b in zip(now, before[policy, count])) / max(pieces, 1)
        cores = sum(a["cpu_s"] - b["cpu_s"] for a, b in zip(now, before[policy, count])) / max(sum(shares) * args.seconds, 1e-9)
        took = sorted(group.took)
        rows.append({"policy": policy, "balancers": count, "seed": seed, "requests": requests, "answered": len(took), "wrong": dict(group.wrong),
                     "stuck_all": stuck, "mean_s": statistics.fmean(took), "p50_s": quantile(took, 0.5), "p99_s": quantile(took, 0.99),
                     "most_s": took[-1], "busy": shares, "worker_late_mean_s": behind, "worker_late_most_s": max(a["late_most_s"] for a in now),
                     "core_while_busy": cores, "client_late_most_s": late})
        say(f"seed {seed}: {count} x {policy}: {len(took)} of {requests}, mean {rows[-1]['mean_s']:.2f} s, p99 {rows[-1]['p99_s']:.2f} s, "
            f"busy {min(shares):.2f} to {max(shares):.2f}, workers late {behind * 1e3:.1f} ms, wrong {dict(group.wrong)}")
    for process in started:
        process.kill()
        process.wait()
    return rows


def forecast(args, counts):
    """Mean and p99 of `lab balance`, by policy and number of balancers."""
    found, load = {}, Load(args)
    for count in counts:
        command = [args.binary, "lab", "balance", "--sites", str(WORKERS), "--load", str(LOAD), "--gap", f"{load.gap_s * 1e3:.3f}ms", "--bursts",
                   f"I={load.index},share={load.share},length={load.burst_s}s", "--delay", "1s", "--view", "refresh", "--balancers", str(count),
                   "--probes", "none", "--requests", "50k", "--seeds", "5", "-p", args.policies, "--json"]
        rows = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))["rows"]
        # Rows are in the order asked for, after the bounds.
        for policy, row in zip(args.policies.split(","), [row for row in rows if not row["bound"]]):
            found[policy, count] = row["response_s"]["mean"], row["response_p99_s"]["mean"]
        for row in rows:
            if row["bound"]:
                found[row["policy"], count] = row["response_s"]["mean"], row["response_p99_s"]["mean"]
    return found


def gains(rows, count):
    """What each form of ARA saves of the means of the source's rivals, repeat by repeat, beside what the source saw."""
    means = {(row["policy"], row["seed"]): row["mean_s"] for row in rows if row["balancers"] == count}
    policies, seeds = sorted({key[0] for key in means}), sorted({key[1] for key in means})
    text = ""
    for policy in (policy for policy in policies if policy.startswith("ara")):
        for rival, source in (("qlen:ties=first", 48), ("qlen", 48), ("rand", 50), ("least", None)):
            if rival in policies:
                saved = [(1 - means[policy, seed] / means[rival, seed]) * 100 for seed in seeds]
                overall = (1 - sum(means[policy, s] for s in seeds) / sum(means[rival, s] for s in seeds)) * 100
                beside = f"; the source: {source} %" if source else ""
                more = overall / (1 - overall / 100)
                text += f"- {policy} beside {rival}: {overall:+.0f} % less [{min(saved):+.0f}, {max(saved):+.0f}], or {rival} {more:+.0f} % more{beside}\n"
    return text


def table(rows, expected, args, counts):
    load = Load(args)
    burst, calm, leave, enter = load.rates()
    requests = {row["seed"]: row["requests"] for row in rows}
    text = (f"{WORKERS} workers, work {load.service_s:g} s on average, {LOAD:.0%} loaded; {1 / load.gap_s:.2f} requests a second: {burst:.1f} in bursts of {1 / leave:g} s, "
            f"{calm:.2f} in calms of {1 / enter:.1f} s (I = {load.index:g}, {load.share:.0%} in bursts); {args.repeats} repeats of {args.seconds} s, "
            f"{sum(requests.values())} requests for each policy; {machine()}\n")
    for count in counts:
        text += (f"\n{count} balancer{'s' if count > 1 else ''}: mean and 99th percentile of responses, seconds; [range over repeats]\n\n"
                 "| policy | mean | forecast | p99 | forecast | busy, least and most of 8 |\n|---|---:|---:|---:|---:|---:|\n")
        for bound in ("central queue", "jsq"):
            text += f"| {bound} (bound) | | {expected[bound, count][0]:.2f} | | {expected[bound, count][1]:.1f} | |\n"
        for policy in args.policies.split(","):
            runs = [row for row in rows if row["policy"] == policy and row["balancers"] == count]
            mean = sum(run["mean_s"] * run["answered"] for run in runs) / sum(run["answered"] for run in runs)
            _, low, high = spread([run["mean_s"] for run in runs])
            p99, p99_low, p99_high = spread([run["p99_s"] for run in runs])
            busy = [statistics.fmean(shares) for shares in zip(*(run["busy"] for run in runs))]
            text += (f"| {policy} | {mean:.2f} [{low:.2f}, {high:.2f}] | {expected[policy, count][0]:.2f} | {p99:.1f} [{p99_low:.1f}, {p99_high:.1f}] "
                     f"| {expected[policy, count][1]:.1f} | {min(busy):.0%}, {max(busy):.0%} |\n")
        text += "\n" + gains(rows, count)
    wrong = sum((collections.Counter(row["wrong"]) for row in rows), collections.Counter())
    text += (f"\nAnswers that were wrong or did not come: {dict(wrong) or 'none'}. A worker at work took {statistics.median(row['core_while_busy'] for row in rows):.3f} of a core, "
             f"and its pieces ended {statistics.median(row['worker_late_mean_s'] for row in rows) * 1e3:.1f} ms late on average, {max(row['worker_late_most_s'] for row in rows):.2f} s at most; "
             f"requests were sent {max(row['client_late_most_s'] for row in rows):.2f} s late at most.\n")
    return text


def run(args, folder):
    many_files()
    policies, counts = args.policies.split(","), [int(count) for count in args.balancers.split(",")]
    expected = forecast(args, counts)
    ports = free_ports(len(policies) * len(counts) * WORKERS)
    rows, workers = [], {}
    script = pathlib.Path(__file__).with_name("balance_worker.py")
    with Programs(folder) as programs:
        for count in counts:
            for policy in policies:
                mine, ports = ports[:WORKERS], ports[WORKERS:]
                workers[policy, count] = mine
                programs.start([sys.executable, str(script), str(CALLS_PER_S), str(count), *map(str, mine)], f"workers-{count}", mine[-1])
        for seed in range(args.seed, args.seed + args.repeats):
            rows += repeat(args, programs, seed, workers)
    return table(rows, expected, args, counts), rows
