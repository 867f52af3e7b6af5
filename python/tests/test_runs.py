"""Runs give the command's counts, end on Ctrl-C, and tell how far they are."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest

import thermocline
from thermocline import balance, cache, dedup, experiments, trace, volume
from conftest import ROOT

COUNTED = ["policy", "size", "capacity_bytes", "line_misses", "admitted", "evicted", "written_back"]


def printed(command, *words):
    done = subprocess.run([command, *words, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_caches_count_as_the_command_does_on_every_trace(command, real_traces):
    policies, sizes = "lru,arc,s3-fifo,larc+lru", "1%,10%"
    for path in real_traces:
        table = cache.simulate(path, policies, sizes)
        expected = printed(
            command, "lab", "cache", str(path), "--policy", policies, "--size", sizes
        )
        ours = [{name: row[name] for name in COUNTED} for row in table.to_dicts()]
        theirs = [{name: row[name] for name in COUNTED} for row in expected["rows"]]
        assert ours == theirs, path
        assert table.about["distinct_lines"] == expected["distinct_lines"]


def test_other_runs_agree_with_the_command(command, tmp_path):
    words = "mixed,requests=20k,vms=2,seed=3"
    made = trace.synth(words)
    stat = printed(command, "trace", "stat", "--synth", words)
    assert trace.stat(made) == stat
    curve = printed(command, "lab", "cache", "--synth", words, "--mrc", "exact")
    points = [point["miss_ratio"] for point in curve["curves"][0]["points"]]
    assert cache.mrc(made)["miss_ratio"] == points
    runs = printed(command, "lab", "volume", "--synth", words, "--policy", "baseline")["runs"]
    ours = volume.simulate(made, "baseline").to_dicts()
    assert [row["pool_read_bytes"] for row in ours] == [
        pool["read_bytes"] for pool in runs[0]["pools"]
    ]
    rows = printed(command, "lab", "balance", "--requests", "2k", "--policy", "p2c")["rows"]
    ours = balance.simulate(policies="p2c", requests="2k").to_dicts()
    assert [row["wait_s"] for row in ours] == [row["wait_s"]["mean"] for row in rows]
    for seeds in (0, 2**63):
        with pytest.raises(ValueError, match="seeds: "):
            balance.simulate(policies="p2c", requests="2k", seeds=seeds)
    (tmp_path / "a").write_bytes(os.urandom(100_000) * 2)
    found = printed(command, "dedup", "estimate", str(tmp_path))["chunkings"]
    assert dedup.estimate(tmp_path)["sent_bytes"] == [row["sent_bytes"] for row in found]


def test_an_experiment_says_whether_it_holds():
    outcome = experiments.run(ROOT / "experiments/hintstor-redis")
    assert outcome["holds"] in (True, False) and outcome["markdown"].startswith("#")


def test_a_workload_described_in_toml_excludes_a_preset_and_vms():
    for words in [{"preset": "oltp"}, {"vms": 2}, {"preset": "mixed", "vms": 2}]:
        with pytest.raises(ValueError, match="spec .* conflicts with preset and vms"):
            trace.synth(spec="x", **words)
    usual, mixed = trace.synth(requests=1_000), trace.synth("mixed", requests=1_000)
    assert trace.stat(usual) == trace.stat(mixed)


def test_results_are_arrow_tables():
    table = cache.simulate(trace.synth("oltp", requests=5_000, seed=1), ["lru", "arc"], "5%")
    arrow = pyarrow.table(table)
    arrow.validate(full=True)
    assert arrow.to_pylist() == table.to_dicts()
    assert arrow.schema.field("line_misses").type == pyarrow.int64()
    with pytest.raises(KeyError, match="line_misses"):
        table["misses"]


def test_what_makes_no_sense_is_refused():
    made = trace.synth("oltp", requests=1_000, seed=1)
    for words, expected in [
        ({"policies": "lruu"}, "did you mean `lru`"),
        ({"sizes": "5 parsecs"}, "sizes: .*not a cache size"),
        ({"line": 3000}, "power of two"),
        ({"epoch": "0s"}, "an epoch lasts"),
        ({"write": "sideways"}, "write: "),
        ({"policies": "./none.so:lru"}, "none.so: it cannot be loaded"),
        ({"policies": [3]}, "neither a policy's name nor a class"),
        ({"policies": []}, "an empty list names nothing"),
        ({"sizes": []}, "an empty list names nothing"),
    ]:
        with pytest.raises(ValueError, match=expected):
            cache.simulate(made, **words)
    holds_itself = []
    holds_itself.append(holds_itself)
    for no_trace in [3, holds_itself, [[made]], [made, 3]]:
        with pytest.raises(TypeError, match="a trace is a path"):
            cache.simulate(no_trace)


@pytest.mark.parametrize("policy", ["lru", "belady"])
def test_ctrl_c_ends_a_run(policy):
    endless = trace.synth("mixed", requests="200M", seed=1)
    killer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        cache.simulate(endless, policy, "1GiB")


INTERRUPTED = """
import sys
import time
from thermocline import cache, trace

class Bypass:
    def __init__(self, geometry):
        pass

    def access(self, lines):
        return [cache.BYPASSED] * len(lines)

class Slow(Bypass):
    # It comes back when its run was left to itself, and the interpreter may have ended.
    def access(self, lines):
        time.sleep(1.5)
        return super().access(lines)

def told(what, done, total):
    print("under way", flush=True)

policy = {"class": Bypass, "slow": Slow}.get(sys.argv[1], sys.argv[1])
try:
    cache.simulate(trace.synth("mixed", requests="900M", seed=1), policy, "1GiB", progress=told)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

PATIENCE_S = 60
"""Far longer than the second that is promised: the machine may be busy with other things."""


@pytest.mark.parametrize("policy", ["lru", "belady", "class", "slow"])
def test_a_signal_from_outside_ends_a_run_that_is_under_way(policy):
    words = [sys.executable, "-c", INTERRUPTED, policy]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "under way\n"
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            said, _ = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
    print(f"ended {time.monotonic() - sent:.2f} s after the signal")
    assert said.splitlines()[-1] == "interrupted" and child.returncode == 0


FORKED = """
import os
from thermocline import cache, trace

def run():
    return len(cache.simulate(trace.synth("oltp", requests=1_000, seed=1), "lru", "5%"))

def forked():
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        run()
    except RuntimeError as error:
        os._exit(3 if "forked after a run cannot run again" in str(error) else 4)
    os._exit(0)

print(forked(), run(), forked(), run())
"""


def test_a_process_that_was_forked_after_a_run_is_refused_and_does_not_hang():
    words = [sys.executable, "-c", FORKED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "0 1 3 1\n", done.stderr


def test_progress_is_told_and_its_exception_ends_the_run():
    made = trace.synth("mixed", requests=300_000, seed=1)
    told = []
    cache.simulate(made, "belady", "5%", progress=lambda *now: told.append(now))
    assert {what for what, _, _ in told} <= {"reading", "replaying lines"} and told

    def refuse(what, done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        cache.simulate(made, "belady", "5%", progress=refuse)


def test_other_python_threads_run_meanwhile():
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    cache.simulate(trace.synth("mixed", requests="1M", seed=1), "lirs", "5%")
    stop.set()
    thread.join()
    assert counted[0] > 10


def test_a_version_is_told():
    made = trace.synth("oltp", requests=1_000, seed=1)
    assert cache.simulate(made, "lru", "5%").about["version"]
    assert repr(thermocline.open.__doc__)
