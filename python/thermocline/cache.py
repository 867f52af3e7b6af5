"""Caches and flash managers over traces: what `thermocline lab cache` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import Path, _native
from ._native import Table, Trace
from ._progress import Progress, callback

Traces = Trace | Path | Iterable[Trace | Path]
Policies = str | Iterable[str] | None
Sizes = str | int | Iterable[str | int] | None


def simulate(
    trace: Traces,
    policies: Policies = None,
    sizes: Sizes = None,
    *,
    line: str | int | None = None,
    objects: bool = False,
    chunk: str | int | None = None,
    epoch: str | None = None,
    write: str | None = None,
    warmup: str | int | None = None,
    profile: Path | None = None,
    seed: int = 1,
    progress: Progress = None,
) -> Table:
    """Runs every policy at every size; a row each, with hits, device traffic, cost and memory.

    Arguments are the options of `thermocline lab cache`, with the same defaults: `policies` are
    the usual ones when none is named, `sizes` 1 %, 5 % and 20 % of the working set. A size that is
    a number is bytes. `objects` takes each request as one object of unit size. The table's `about`
    is the rest of the report.

    >>> from thermocline import trace
    >>> made = trace.synth("web", requests=10_000, vms=1, seed=1)
    >>> rows = simulate(made, ["lru", "s3-fifo"], ["1%", "10%"]).to_dicts()
    >>> [(row["policy"], row["size"]) for row in rows]
    [('lru', '1%'), ('lru', '10%'), ('s3-fifo', '1%'), ('s3-fifo', '10%')]
    >>> rows[0]["line_misses"] > rows[1]["line_misses"]
    True

    Raises `ValueError` when a trace, a policy or an option makes no sense.
    """
    model = _model(line, objects, chunk, epoch, write, warmup, profile, seed)
    return _native.cache_simulate(trace, policies, sizes, model, callback(progress))


def mrc(
    trace: Traces,
    policies: Policies = None,
    sizes: Sizes = None,
    *,
    method: str = "exact",
    line: str | int | None = None,
    objects: bool = False,
    warmup: str | int | None = None,
    seed: int = 1,
    progress: Progress = None,
) -> Table:
    """Miss-ratio curves: a row a policy and size, with `bytes`, `miss_ratio` and its `error`.

    `method` is `"exact"`, for LRU alone, or a sample of the lines, for every cache policy:
    `"shards:0.01"` or `"shards:20000lines"`.

    >>> from thermocline import trace
    >>> curve = mrc(trace.synth("oltp", requests=10_000, seed=1))
    >>> ratios = curve["miss_ratio"]
    >>> ratios == sorted(ratios, reverse=True)
    True
    """
    model = _model(line, objects, None, None, None, warmup, None, seed)
    return _native.cache_mrc(trace, policies, sizes, method, model, callback(progress))


def _model(
    line: str | int | None,
    objects: bool,
    chunk: str | int | None,
    epoch: str | None,
    write: str | None,
    warmup: str | int | None,
    profile: Path | None,
    seed: int,
) -> dict[str, Any]:
    return {
        "line": line,
        "objects": objects,
        "chunk": chunk,
        "epoch": epoch,
        "write": write,
        "warmup": warmup,
        "profile": profile,
        "seed": seed,
    }
