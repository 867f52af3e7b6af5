"""Caches and flash managers over traces: what `thermocline lab cache` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypedDict, Union

from . import Path, _native
from ._native import Table, Trace
from ._progress import Progress, callback

HIT: Final = 0xFFFFFFFF
"""Answer of a policy: the line was resident."""
ADMITTED: Final = 0xFFFFFFFE
"""Answer of a policy: a miss, and the line was admitted into free room."""
BYPASSED: Final = 0xFFFFFFFD
"""Answer of a policy: a miss, and the line was not admitted."""


class Geometry(TypedDict):
    """The cache that a policy is made for."""

    lines: int
    line_bytes: int
    volumes: int
    seed: int


class Policy(Protocol):
    """A policy of one's own: a class that is called with a `Geometry` and makes one of these.

    `access` is given the lines of a batch, a list of ints from 0 up, and returns an answer for
    each: `HIT`, `ADMITTED`, `BYPASSED`, or the line that was evicted. A list of ints will do, or
    anything with a buffer of unsigned 32-bit numbers, such as a NumPy array. A class attribute
    `arrays = True` asks for a memoryview of such numbers instead of a list. A trace with discards
    also needs `invalidate(self, line)`. An attribute `name` is what tables call it.

    >>> from collections import OrderedDict
    >>> class Lru:
    ...     def __init__(self, geometry):
    ...         self.kept, self.capacity = OrderedDict(), geometry["lines"]
    ...     def access(self, lines):
    ...         return [self.one(line) for line in lines]
    ...     def one(self, line):
    ...         if line in self.kept:
    ...             self.kept.move_to_end(line)
    ...             return HIT
    ...         full = len(self.kept) == self.capacity
    ...         self.kept[line] = None
    ...         return self.kept.popitem(last=False)[0] if full else ADMITTED
    >>> from thermocline import trace
    >>> made = trace.synth("web", requests=5_000, vms=1, seed=1)
    >>> own, built_in = simulate(made, [Lru, "lru"], "10%")["line_misses"]
    >>> own == built_in
    True
    """

    def access(self, lines: Any, /) -> Any: ...


PolicyClass = Callable[[Geometry], Policy]
Traces = Union[Trace, Path, Iterable[Union[Trace, Path]]]
Policies = Union[str, PolicyClass, Iterable[Union[str, PolicyClass]], None]
Sizes = Union[str, int, Iterable[Union[str, int]], None]


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
    a number is bytes. A policy is a name of the registry with settings, `"./mine.so:name"` from a
    shared library (include/thermocline_policy.h), or a class (`Policy`). `objects` takes each request as one object of unit size. The table's `about`
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
