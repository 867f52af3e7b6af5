"""Sweeps by a plan, in this process or on a cluster: what `thermocline lab sweep` runs."""

from __future__ import annotations

from typing import Any, Literal

from . import Path, _native
from ._progress import Progress, callback


def sweep(
    plan: Path,
    out: Path | None = None,
    *,
    on: Literal["here", "ray"] = "here",
    workers: int | None = None,
    dry_run: bool = False,
    address: str | None = None,
    cpus: int = 1,
    retries: int = 5,
    progress: Progress = None,
    command: str = "thermocline.sweep",
) -> dict[str, Any]:
    """Runs the plan in the file `plan`: many traces, policies, sizes and seeds.

    Policies are those of the registry, and of shared libraries beside the plan (`./mine.so:name`).
    Results are files in the folder `out`, a job each; the same call goes on after a stop. They are
    the same, byte for byte, wherever the jobs run. `thermocline lab report` compares them. The
    result counts jobs (`jobs`, `done_before`, `done_now`) and rows that are errors (`errors_now`).
    With `dry_run` nothing is run, and the result is what the plan needs.

    `workers` is the number of jobs at the same time: a core each when it is not given. `command` is
    kept in `sweep.json` as the origin of the results.

    With `on="ray"` jobs are tasks of a Ray cluster (docs/guides/sweep.md), whose machines share the
    folders of traces and results. `address` names the cluster as `ray.init` does; a Ray that runs
    in this process already is used. Each task declares `cpus` cores and its estimated memory. It is
    started anew up to `retries` times when its worker or its machine dies.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "plan.toml").write_text('''
    ... format = 1
    ... policies = ["lru", "arc"]
    ... sizes = ["10%"]
    ... [[traces]]
    ... family = "web"
    ... synth = ["web,requests=2k"]
    ... ''')
    >>> sweep(folder / "plan.toml", dry_run=True)["rows"]
    2
    >>> sweep(folder / "plan.toml", folder / "results")
    {'jobs': 1, 'done_before': 0, 'done_now': 1, 'errors_now': 0, 'unread_now': 0}

    Raises `ValueError` when the plan or the folder makes no sense, `OSError` when results cannot be
    written, and `RuntimeError` when jobs have no result: their traces could not be read now, or
    on Ray all retries are used up. The others are done then, and the same call tries these again.
    """
    if on not in ("here", "ray"):
        raise ValueError(f"on={on!r}: a sweep runs 'here' or on 'ray'")
    if dry_run:
        return _native.sweep_estimate(plan)
    if out is None:
        raise ValueError("a sweep needs a folder for its results, `out`, unless it is a dry_run")
    if on == "here":
        begun = _native.sweep_begin(plan, out, command, False)
        try:
            return begun.drive(workers, callback(progress))
        finally:
            begun.close()
    from . import on_ray

    return on_ray.sweep(
        plan,
        out,
        workers=workers,
        address=address,
        cpus=cpus,
        retries=retries,
        progress=progress,
        command=command,
    )
