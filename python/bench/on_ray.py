"""Measures sweeps on Ray for docs/results/ray.md: `python on_ray.py WHAT`, prints JSON lines.

- `killed`: 200 jobs on two nodes, one of which is killed in the middle, beside a run without Ray;
- `overhead`: jobs of about a second, two at a time, without Ray and with it, in turn;
- `nodes`: the same jobs on one node of one core and on two, in turn;
- `dry`: a dry run of 10,000 jobs: time and memory of a fresh process;
- `short`: 10,000 short jobs on a node of two cores: time and memory of the driver.

Nodes are process trees of this machine (`ray.cluster_utils`). The time of a run begins when the
cluster is up and the package is loaded in its workers, which a job before the run sees to. Each job
has one thread. Ray gives its workers a niceness of 15; RAY_worker_niceness=0 makes the comparison
fair on a machine that others use too.
"""

from __future__ import annotations

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import thermocline

REPEATS = int(os.environ.get("REPEATS", "5"))
JOBS = int(os.environ.get("JOBS", "30"))
PLAN = """
format = 1
policies = ["lru", "arc", "s3-fifo"]
sizes = ["10%"]
seeds = SEEDS
[[traces]]
family = "made"
synth = [WORDS]
"""


def say(**words):
    print(json.dumps(words), flush=True)


def written(folder, jobs, requests, workloads=1):
    """A plan of `jobs` jobs: `workloads` workloads with equally many seeds."""
    words = [f"mixed,vms=2,requests={requests + i}" for i in range(workloads)]
    text = PLAN.replace("SEEDS", str(list(range(1, jobs // workloads + 1))))
    path = folder / f"plan-{jobs}-{requests}.toml"
    path.write_text(text.replace("[WORDS]", json.dumps(words)))
    return path


def results(out):
    return {p.name: p.read_bytes() for p in sorted((out / "results").rglob("*")) if p.is_file()}


def processor_s():
    """Processor time of this process so far."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def of_a_second(folder):
    """Requests of a job that takes a second of a processor here."""
    requests = 100_000
    for _ in range(3):
        plan = written(folder, 3, requests)
        begun = processor_s()
        thermocline.sweep(plan, pathlib.Path(tempfile.mkdtemp(dir=folder)))
        requests = max(1000, int(requests / ((processor_s() - begun) / 3)))
    return requests


class Nodes:
    """Nodes of a cluster on this machine, with one core each unless said otherwise."""

    def __init__(self, count, folder, cpus=1):
        import ray
        from ray.cluster_utils import Cluster

        words = {"num_cpus": cpus, "object_store_memory": 80_000_000}
        begun = time.monotonic()
        head = {**words, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.others = [self.cluster.add_node(**words) for _ in range(count - 1)]
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="error")
        self.ray = ray
        self.run(written(folder, 4 * count * cpus, 1000), folder)
        self.start_s = time.monotonic() - begun

    def run(self, plan, folder, progress=None):
        """Time of a sweep on the cluster, and its driver."""
        from thermocline import on_ray

        out = pathlib.Path(tempfile.mkdtemp(dir=folder))
        begun = time.monotonic()
        driver = on_ray.driven(plan, out, None, None, 1, 5, progress, "bench")
        return time.monotonic() - begun, driver, out

    def processor_s(self):
        """Processor time so far of this process and of all processes of the nodes."""
        spent = processor_s()
        begun = [
            info.process.pid
            for node in self.cluster.list_all_nodes()
            for infos in node.all_processes.values()
            for info in infos
        ]
        seen = set()
        while begun:
            process = begun.pop()
            if process in seen:
                continue
            seen.add(process)
            place = pathlib.Path(f"/proc/{process}")
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            for thread in (place / "task").iterdir():
                begun += map(int, (thread / "children").read_text().split())
        return spent

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ray.shutdown()
        self.cluster.shutdown()


def here(plan, folder):
    """Time of a sweep without Ray, with a job a core and so a thread a job."""
    out = pathlib.Path(tempfile.mkdtemp(dir=folder))
    begun = time.monotonic()
    thermocline.sweep(plan, out)
    return time.monotonic() - begun, out


def killed(folder):
    plan, died = written(folder, 200, 100_000), []
    with Nodes(2, folder) as nodes:

        def kill(what, done, total):
            if done >= 100 and not died:
                died.append(nodes.others[0].node_id)
                nodes.cluster.remove_node(nodes.others[0], allow_graceful=False)

        seconds, driver, out = nodes.run(plan, folder, kill)
    _, expected = here(plan, folder)
    ours, theirs = results(out), results(expected)
    say(
        what="killed",
        seconds=seconds,
        jobs=len(driver.done),
        files=len(ours),
        equal=ours == theirs,
        by_node=[driver.jobs_by_node[died[0]], sum(driver.jobs_by_node.values())],
    )


def overhead(folder):
    plan = written(folder, JOBS, of_a_second(folder))
    with Nodes(1, folder, cpus=os.cpu_count()) as nodes:
        for _ in range(REPEATS):
            load = os.getloadavg()[0]
            at = nodes.processor_s()
            alone, _ = here(plan, folder)
            between = nodes.processor_s()
            on_ray, _, _ = nodes.run(plan, folder)
            after = nodes.processor_s()
            say(
                what="overhead", jobs=JOBS, here_s=alone, ray_s=on_ray, ratio=on_ray / alone,
                here_processor_s=between - at, ray_processor_s=after - between,
                processor_ratio=(after - between) / (between - at),
                start_s=nodes.start_s, load=load,
            )  # fmt: skip


def two_nodes(folder):
    plan = written(folder, JOBS, of_a_second(folder))
    for _ in range(REPEATS):
        load = os.getloadavg()[0]
        with Nodes(1, folder) as nodes:
            one, _, _ = nodes.run(plan, folder)
        with Nodes(2, folder) as nodes:
            two, _, _ = nodes.run(plan, folder)
        say(what="nodes", jobs=JOBS, one_s=one, two_s=two, ratio=one / two, load=load)


DRY = "import sys, thermocline; print(thermocline.sweep(sys.argv[1], dry_run=True)['jobs'])"


def dry(folder):
    for workloads in (10, 1000):
        plan = written(folder, 10_000, 50_000, workloads)
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-c", DRY, plan], check=True, capture_output=True)
        seconds = time.monotonic() - begun
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        say(what="dry", jobs=int(done.stdout), workloads=workloads, seconds=seconds, peak_bytes=peak)


def short(folder):
    plan = written(folder, 10_000, 1000, 10)
    with Nodes(1, folder, cpus=2) as nodes:
        before = resource.getrusage(resource.RUSAGE_SELF)
        seconds, driver, _ = nodes.run(plan, folder)
        after = resource.getrusage(resource.RUSAGE_SELF)
    say(
        what="short",
        jobs=len(driver.done),
        seconds=seconds,
        driver_processor_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        driver_peak_bytes=after.ru_maxrss * 1024,
        driver_peak_before_bytes=before.ru_maxrss * 1024,
    )


if __name__ == "__main__":
    runs = {"killed": killed, "overhead": overhead, "nodes": two_nodes, "dry": dry, "short": short}
    with tempfile.TemporaryDirectory() as name:
        for word in sys.argv[1:] or runs:
            runs[word](pathlib.Path(name))
