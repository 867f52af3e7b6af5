"""Sweeps on a Ray cluster: the loop that hands out jobs. `thermocline.sweep(on="ray")` calls it.

1. The driver begins the sweep and holds its folder. The list of jobs, what is done, and the
   estimates of memory are those of a sweep on one machine.
2. At most `workers` jobs are tasks of Ray at the same time; without it, twice as many as the
   cluster has cores for. The others wait in the driver as numbers.
3. A task runs one job and writes its files to the shared folder. It returns a number of errors.
4. A task whose worker or machine dies, or cannot read its trace, is started anew by the driver, not
   by Ray: Ray starts tasks that ran out of memory anew without end. A job that ran out of memory declares twice as much then.
   A job whose retries are used up is left out and named at the end; its file is missing, so that the
   same call tries it again.
5. Tasks that wait for more memory or cores than any machine has left are given back and declared
   anew; where no machine has the cores that a job needs, the run ends with an error.

It decides nothing about results: a job is run and written by the compiled part, as everywhere.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import signal
import sys
import time
from collections import Counter, deque
from typing import Any

from . import Path, _native
from ._progress import Progress, callback

LOOK_EVERY_S = 1.0
"""Time between two looks at the cluster, which grows and shrinks."""

WAITING_PER_CORE = 2
"""Tasks for each core of the cluster: one runs, one is ready to follow."""

NAMED_MAX = 5
"""Jobs without a result that an error names."""

MESSAGE_LINES_MAX = 1
"""Lines of an error of Ray that are told; the first says what happened."""


def imported() -> Any:
    """Ray's own package, which is optional."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(
            "a sweep on Ray needs the package ray: pip install 'thermocline[ray]'"
        ) from error


def run_job(folder: str, plan_blake3: str, job: str, cpus: int) -> tuple[int, str | None, str]:
    """Runs one job in a task's process; the number of its rows that are errors, the reason if its
    trace could not be read, and the node."""
    errors, unread = _native.sweep_job(folder, plan_blake3, job, cpus)
    return errors, unread, imported().get_runtime_context().get_node_id()


class Driver:
    """Hands out the jobs of a sweep, and counts what comes back."""

    def __init__(
        self, begun: _native.Sweep, workers: int | None, cpus: int, retries: int, progress: Progress
    ) -> None:
        self.begun, self.workers, self.cpus = begun, workers, cpus
        self.show = callback(progress)
        self.waiting: deque[int] = deque(begun.missing)
        self.retries = retries
        self.attempts: Counter[int] = Counter()
        self.memory_factor: dict[int, int] = {}
        self.under_way: dict[Any, int] = {}
        self.declared: dict[Any, int] = {}
        self.done: set[int] = set()
        self.errors = 0
        self.jobs_by_node: Counter[str] = Counter()
        self.lost: dict[int, str] = {}
        self.looked = float("-inf")
        self.room, self.memory = 1, 0
        self.ray = imported()
        self.task: Any = self.ray.remote(num_cpus=cpus, max_retries=0)(run_job)

    def run(self) -> None:
        """Runs all jobs that are missing. On any exception the tasks under way are cancelled."""
        try:
            while self.hand_out():
                self.collect()
        except BaseException:
            for task in self.under_way:
                self.ray.cancel(task, force=True)
            raise
        self.check()

    def hand_out(self) -> bool:
        """Starts tasks while there is room; false when nothing is left to do."""
        self.look_at_cluster()
        while len(self.under_way) < self.room:
            if not self.waiting:
                break
            number = self.waiting.popleft()
            job, family, memory = self.begun.job(number)
            # A job that no machine has the memory for runs alone on the largest one: the estimate
            # is high for long traces, and Ray would wait for such a machine for ever.
            declared = min(memory * self.memory_factor.get(number, 1), self.memory)
            task = self.task.options(name=f"sweep: {family}", memory=declared or None)
            folder, plan = str(self.begun.folder), self.begun.plan_blake3
            started = task.remote(folder, plan, job, self.cpus)
            self.under_way[started], self.declared[started] = number, declared
        return bool(self.under_way)

    def give_back(self) -> None:
        """Takes tasks back that declare more memory than any machine has any more."""
        for task in [task for task, declared in self.declared.items() if declared > self.memory]:
            self.ray.cancel(task, force=True)
            del self.declared[task]
            self.waiting.appendleft(self.under_way.pop(task))

    def look_at_cluster(self) -> None:
        """Room for tasks, and memory of the largest machine; looks once in a while."""
        if time.monotonic() - self.looked < LOOK_EVERY_S:
            return
        self.looked = time.monotonic()
        alive = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        cores = sum(int(node.get("CPU", 0)) for node in alive)
        self.room = self.workers or max(1, WAITING_PER_CORE * cores // self.cpus)
        able = [node for node in alive if node.get("CPU", 0) >= self.cpus]
        if alive and not able:
            cores = int(max(node.get("CPU", 0) for node in alive))
            raise ValueError(
                f"cpus is {self.cpus}, and no machine of the cluster has more than {cores} cores"
            )
        memory = int(max((node.get("memory", 0) for node in able), default=0))
        if able:
            self.memory = memory
            self.give_back()

    def collect(self) -> None:
        """Waits for a task, and takes what it and others brought."""
        tasks = list(self.under_way)
        ready, _ = self.ray.wait(tasks, num_returns=1, timeout=LOOK_EVERY_S)
        if ready:
            more, _ = self.ray.wait(tasks, num_returns=len(tasks), timeout=0)
            for task in {*ready, *more}:
                self.declared.pop(task, None)
                self.take(task, self.under_way.pop(task))
        if self.show is not None:
            self.show("jobs", len(self.done) + len(self.lost), len(self.begun.missing))

    def take(self, task: Any, number: int) -> None:
        errors = self.ray.exceptions
        try:
            wrong, unread, node = self.ray.get(task)
            if unread is not None:
                # Another machine may reach the file.
                self.try_again(number, unread)
                return
            self.errors += wrong
            self.jobs_by_node[node] += 1
            self.done.add(number)
        except errors.RayTaskError as error:
            # A trace never raises. What is wrong here is wrong for all jobs: another
            # version, a folder that is not shared, a full disk.
            raise error.cause if error.cause is not None else error
        except errors.RayError as error:
            if isinstance(error, errors.OutOfMemoryError):
                self.memory_factor[number] = 2 * self.memory_factor.get(number, 1)
            told = str(error).strip().splitlines()[:MESSAGE_LINES_MAX]
            self.try_again(number, " ".join([type(error).__name__ + ":", *told]))

    def try_again(self, number: int, why: str) -> None:
        """Puts a job back among those that wait, or leaves it out when its retries are used up."""
        self.attempts[number] += 1
        if self.attempts[number] <= self.retries:
            self.waiting.appendleft(number)
        else:
            self.lost[number] = why

    def check(self) -> None:
        """Raises when a job has no file."""
        missing = set(self.begun.still_missing())
        unseen = sorted(missing & self.done)
        if unseen:
            raise RuntimeError(
                f"job {unseen[0]} was done on another machine, and its file is not in "
                f"{self.begun.folder} here; the folder must be on a file system that all machines "
                "share. If it is, the same call goes on"
            )
        if self.lost:
            named = [f"job {job}: {why}" for job, why in sorted(self.lost.items())[:NAMED_MAX]]
            raise RuntimeError(
                f"{len(self.lost)} of {len(self.begun.missing)} jobs have no result after all "
                f"retries; the same call tries them again, the others are done. {'; '.join(named)}"
            )


def sweep(
    plan: Path,
    out: Path,
    *,
    workers: int | None,
    address: str | None,
    cpus: int,
    retries: int,
    progress: Progress,
    command: str,
) -> dict[str, Any]:
    """Runs a plan on Ray; arguments and result are those of `thermocline.sweep`."""
    driver = driven(plan, out, workers, address, cpus, retries, progress, command)
    return driver.begun.outcome(len(driver.done), driver.errors)


def driven(
    plan: Path,
    out: Path,
    workers: int | None,
    address: str | None,
    cpus: int,
    retries: int,
    progress: Progress,
    command: str,
) -> Driver:
    if cpus < 1 or (workers is not None and workers < 1) or retries < 0:
        raise ValueError("workers and cpus are 1 or more, retries 0 or more")
    ray = imported()
    # The plan is read first: a mistake in it is told before a cluster is started.
    begun = _native.sweep_begin(plan, out, command, True)
    ours = not ray.is_initialized()
    try:
        if ours:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        driver = Driver(begun, workers, cpus, retries, progress)
        driver.run()
        return driver
    finally:
        begun.close()
        if ours:
            ray.shutdown()


def main(words: list[str]) -> int:
    """What `thermocline lab sweep --on ray` becomes; the exit status."""
    parser = argparse.ArgumentParser(prog="thermocline lab sweep --on ray")
    parser.add_argument("plan")
    parser.add_argument("--out", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stopped)
    at = [0, 0]

    def show(_: str, done: int, total: int | None) -> None:
        if sys.stderr.isatty() and [done, total] != at:
            at[:] = [done, total or 0]
            print(f"\r{done} of {total} jobs", end="", file=sys.stderr, flush=True)

    try:
        driver = driven(given.plan, given.out, given.workers, None, 1, 5, show, given.command)
    except (KeyboardInterrupt, SystemExit) as stop:
        # Ray puts a handler in the place of ours, which exits with the number of the signal.
        if isinstance(stop, SystemExit) and stop.code != signal.SIGTERM:
            raise
        print("\nstopped; the same command goes on from there", file=sys.stderr)
        return 130
    except (ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (OSError, RuntimeError, ConnectionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if sys.stderr.isatty() and at[1]:
        print(file=sys.stderr)
    if given.json:
        print(json.dumps(driver.begun.outcome(len(driver.done), driver.errors), indent=2))
    else:
        print(driver.begun.outcome_text(len(driver.done), driver.errors), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
