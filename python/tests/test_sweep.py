"""Sweeps from Python: equal to the command's, in this process and on a Ray cluster, whatever dies."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import thermocline
from conftest import ROOT

PLAN = """
format = 1
policies = ["lru", "arc"]
sizes = ["10%", "64lines"]
seeds = SEEDS

[[traces]]
family = "made"
synth = ["web,requests=REQUESTS"]

[[traces]]
family = "files"
files = ["*.csv"]
format = "msr"
"""


@pytest.fixture
def plan(tmp_path):
    """Writes a plan: a workload that is made, a good trace and a broken one, each with seeds."""

    def write(seeds, requests="3k"):
        rows = [f"{128166372000000000 + i},host,0,Read,{i * i % 97 * 4096},4096,1" for i in range(500)]
        (tmp_path / "good.csv").write_text("\n".join(rows) + "\n")
        (tmp_path / "broken.csv").write_text("1,host,0,Read,zero,4096,1\n")
        path = tmp_path / "plan.toml"
        text = PLAN.replace("SEEDS", str(list(range(1, seeds + 1))))
        path.write_text(text.replace("REQUESTS", requests))
        return path

    return write


def results(out):
    """Every file of results with its bytes; a half-written one would be seen too."""
    files = sorted(path for path in (out / "results").rglob("*") if path.is_file())
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


@pytest.fixture
def expected(plan, tmp_path):
    """Results of a run here."""

    def run(path):
        thermocline.sweep(path, tmp_path / "here")
        return results(tmp_path / "here")

    return run


def test_a_sweep_here_writes_what_the_command_writes(command, plan, tmp_path):
    path = plan(3)
    words = [command, "lab", "sweep", str(path), "--out", str(tmp_path / "theirs"), "--json"]
    theirs = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    told = []
    ours = thermocline.sweep(path, tmp_path / "ours", progress=lambda *now: told.append(now))
    counts = {"jobs": 9, "done_before": 0, "done_now": 9, "errors_now": 3, "unread_now": 0}
    assert ours == theirs == counts
    assert results(tmp_path / "ours") == results(tmp_path / "theirs")
    assert told[-1] == ("jobs", 9, 9)
    again = thermocline.sweep(path, tmp_path / "ours")
    assert again == {**counts, "done_before": 9, "done_now": 0, "errors_now": 0}


def with_own_policy(path, plug_in):
    """Gives a plan the policy of a library, which is copied beside it."""
    library, name = plug_in.rsplit(":", 1)
    (path.parent / "own.so").write_bytes(pathlib.Path(library).read_bytes())
    path.write_text(path.read_text().replace('"arc"', f'"./own.so:{name}"'))


def test_a_library_beside_the_plan_runs_here_and_by_the_command(command, plan, plug_in, tmp_path):
    path = plan(2)
    with_own_policy(path, plug_in)
    assert thermocline.sweep(path, dry_run=True)["rows"] == 24
    words = [command, "lab", "sweep", str(path), "--out", str(tmp_path / "theirs")]
    subprocess.run(words, check=True, capture_output=True)
    assert thermocline.sweep(path, tmp_path / "ours")["errors_now"] == 2
    assert results(tmp_path / "ours") == results(tmp_path / "theirs")
    # As linkers do it: a library that is written over while it is loaded ends its process.
    (path.parent / "own.so").unlink()
    (path.parent / "own.so").write_bytes(b"another")
    with pytest.raises(ValueError, match="not the library that this sweep began with"):
        thermocline.sweep(path, tmp_path / "ours")


def test_a_trace_that_is_away_is_named_and_tried_again(plan, expected, tmp_path):
    path, out = plan(2), tmp_path / "out"
    good = tmp_path / "good.csv"
    whole = expected(path)
    thermocline._native.sweep_begin(path, out, "test", False).close()
    good.rename(tmp_path / "away")
    with pytest.raises(RuntimeError, match="2 jobs could not read their traces.*good.csv: No such"):
        thermocline.sweep(path, out)
    (tmp_path / "away").rename(good)
    assert thermocline.sweep(path, out)["done_now"] == 2
    assert results(out) == whole


def test_what_a_sweep_cannot_do_is_refused(plan, tmp_path):
    path = plan(1)
    with pytest.raises(ValueError, match="a folder for its results"):
        thermocline.sweep(path)
    with pytest.raises(ValueError, match="'here' or on 'ray'"):
        thermocline.sweep(path, tmp_path / "out", on="slurm")
    path.write_text("format = 2\n")
    with pytest.raises(ValueError, match="plan.toml, line 1"):
        thermocline.sweep(path, dry_run=True)


def test_ctrl_c_ends_a_sweep_and_frees_its_folder(plan, tmp_path):
    path = plan(1, requests="100M")

    def interrupt(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        thermocline.sweep(path, tmp_path / "out", progress=interrupt)
    # The jobs under way unwind at their next block of requests, and let go of the folder.
    deadline = time.monotonic() + 30
    while True:
        try:
            begun = thermocline._native.sweep_begin(path, tmp_path / "out", "test", False)
            break
        except ValueError as error:
            assert "another process runs this sweep" in str(error)
            assert time.monotonic() < deadline, "the folder is still in use"
            time.sleep(0.05)
    assert len(begun) == 3


@pytest.fixture(scope="module")
def ray():
    try:
        import ray
    except ImportError:
        print("SKIPPED: sweeps on Ray were not tested: pip install 'ray>=2.40'")
        pytest.skip("no ray")
    return ray


class Nodes:
    """A cluster of nodes on this machine, each a process tree of its own."""

    def __init__(self, ray, nodes, **words):
        from ray.cluster_utils import Cluster

        words = {"num_cpus": 1, "object_store_memory": 80_000_000, **words}
        head = {**words, "include_dashboard": False}
        self.ray = ray
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.others = [self.cluster.add_node(**words) for _ in range(nodes - 1)]
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="error")

    def busy_workers(self):
        """Processes that run a job now, below the nodes of this cluster."""
        found = []
        for node in self.cluster.list_all_nodes():
            raylet = node.all_processes["raylet"][0].process.pid
            children = pathlib.Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
            for child in children:
                title = pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
                if title.startswith(b"ray::sweep") or title.startswith(b"ray::run_job"):
                    found.append(int(child))
        return found

    def end(self):
        self.ray.shutdown()
        self.cluster.shutdown()


@pytest.fixture
def nodes(ray):
    begun = []

    def begin(nodes, **words):
        begun.append(Nodes(ray, nodes, **words))
        return begun[-1]

    yield begin
    for one in begun:
        one.end()


def driven(path, out, progress=None, workers=None, retries=5):
    from thermocline import on_ray

    return on_ray.driven(path, out, workers, None, 1, retries, progress, "test")


def test_a_node_that_dies_loses_and_doubles_nothing(nodes, plan, expected, tmp_path):
    cluster = nodes(2)
    path = plan(67, requests="60k")
    killed = []

    def kill(what, done, total):
        if done >= 60 and not killed:
            node = cluster.others[0]
            killed.append(node.node_id)
            cluster.cluster.remove_node(node, allow_graceful=False)

    driver = driven(path, tmp_path / "ray", kill)
    assert len(driver.begun) == 201 and len(driver.done) == 201 and not driver.lost
    assert driver.jobs_by_node[killed[0]] > 0, "the node that was killed had run jobs"
    assert driver.errors == 67, "a row with an error for each seed of the broken trace"
    assert results(tmp_path / "ray") == expected(path)


def test_workers_that_die_are_replaced(nodes, plan, expected, tmp_path):
    cluster = nodes(1)
    path, killed = plan(4, requests="1M"), set()

    def kill(what, done, total):
        for process in cluster.busy_workers():
            if len(killed) < 3 and process not in killed:
                killed.add(process)
                os.kill(process, signal.SIGKILL)

    driver = driven(path, tmp_path / "ray", kill)
    assert killed and len(driver.done) == 12
    assert results(tmp_path / "ray") == expected(path)


def test_a_job_whose_worker_always_dies_is_named_and_tried_again(nodes, plan, expected, tmp_path):
    cluster = nodes(1)
    path, killed = plan(2, requests="1M"), set()

    def kill(what, done, total):
        if not killed:
            for process in cluster.busy_workers():
                killed.add(process)
                os.kill(process, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="1 of 6 jobs have no result after all retries.*job "):
        driven(path, tmp_path / "ray", kill, workers=1, retries=0)
    assert thermocline.sweep(path, tmp_path / "ray", on="ray")["done_now"] == 1
    assert results(tmp_path / "ray") == expected(path)


def test_a_driver_that_is_stopped_goes_on(nodes, plan, expected, tmp_path):
    nodes(2)
    path = plan(10, requests="20k")

    def stop(what, done, total):
        if done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driven(path, tmp_path / "ray", stop)
    counts = thermocline.sweep(path, tmp_path / "ray", on="ray")
    assert counts["done_before"] >= 10 and counts["done_before"] + counts["done_now"] == 30
    assert results(tmp_path / "ray") == expected(path)


def test_workers_on_ray_run_the_library_that_the_sweep_began_with(
    nodes, plan, plug_in, expected, tmp_path
):
    nodes(1)
    path = plan(2)
    with_own_policy(path, plug_in)
    assert thermocline.sweep(path, tmp_path / "ray", on="ray")["done_now"] == 6
    assert results(tmp_path / "ray") == expected(path)


def test_a_trace_that_no_worker_can_read_is_named(nodes, plan, tmp_path):
    nodes(1)
    path, out = plan(1), tmp_path / "ray"
    thermocline._native.sweep_begin(path, out, "test", False).close()
    (tmp_path / "good.csv").rename(tmp_path / "away")
    with pytest.raises(RuntimeError, match="1 of 3 jobs have no result.*good.csv: No such file"):
        driven(path, out, retries=1)
    (tmp_path / "away").rename(tmp_path / "good.csv")
    assert thermocline.sweep(path, out, on="ray")["done_now"] == 1


def test_a_job_that_is_too_large_for_every_node_runs_alone(nodes, plan, expected, tmp_path):
    nodes(1, memory=20_000_000)
    path = plan(1)
    assert thermocline.sweep(path, dry_run=True)["largest"][1] > 20_000_000
    assert thermocline.sweep(path, tmp_path / "ray", on="ray")["done_now"] == 3
    assert results(tmp_path / "ray") == expected(path)


def test_the_command_runs_a_sweep_on_ray(ray, command, plan, expected, tmp_path):
    path, out = plan(2), tmp_path / "ray"
    words = [command, "lab", "sweep", str(path), "--out", str(out), "--on", "ray", "--json"]
    # A cluster of its own, which ends with it.
    given = {**os.environ, "THERMOCLINE_PYTHON": sys.executable, "RAY_ADDRESS": "local"}
    done = subprocess.run(words, capture_output=True, text=True, env=given, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done_now"] == 6
    assert results(out) == expected(path)
    assert json.loads((out / "sweep.json").read_text())["command"].endswith("--on ray --json")
    path.write_text("format = 2\n")
    done = subprocess.run(words, capture_output=True, text=True, env=given, check=False)
    assert done.returncode == 2 and "error: " in done.stderr and "line 1" in done.stderr


def test_a_signal_stops_a_sweep_on_ray_as_ctrl_c_does(monkeypatch, capsys):
    from thermocline import on_ray

    def driven(*_):
        # As ray.init does it.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    monkeypatch.setattr(on_ray, "driven", driven)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert on_ray.main(["plan.toml", "--out", "out", "--command", "test"]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "stopped; the same command goes on from there" in capsys.readouterr().err


def test_the_command_says_which_packages_a_python_lacks(command, plan, tmp_path):
    words = [command, "lab", "sweep", str(plan(1)), "--out", str(tmp_path / "out"), "--on", "ray"]
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    given = {"THERMOCLINE_PYTHON": str(bare), "PATH": os.environ["PATH"]}
    done = subprocess.run(words, capture_output=True, text=True, env=given, cwd=ROOT, check=False)
    assert done.returncode == 1 and "has no package thermocline" in done.stderr
