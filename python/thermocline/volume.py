"""Tiered volumes with placements in virtual time: what `thermocline lab volume` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypedDict, Union

from . import Path, _native
from ._native import Table, Trace
from ._progress import Progress, callback


class Epoch(TypedDict):
    """An epoch that ends, as a placement of one's own is shown it.

    `chunks` has a row a chunk, numbered from 0, with the columns `volume`, `index` (its place in
    the volume), `pool`, `reads`, `writes`, `read_bytes`, `written_bytes` (of the epoch),
    `last_access` (number of its last access among all since the start, from 1; 0: never), `last_ns`
    (its time), `empty`, `pinned` and `replicated`. A chunk keeps its row. An empty chunk holds
    nothing, and counts as on the slowest pool.

    `pools` has a row a pool, from the fastest (0) to the slowest: `total_chunks`, `free_chunks`;
    expected service of requests of 4 KiB, such as `random_read_latency_ns` and
    `random_read_per_second`, likewise for `random_write`, `sequential_read` and
    `sequential_write`; and what clients asked of it in the epoch: `reads`, `writes`, `read_bytes`,
    `written_bytes`, `read_latency_ns`, `write_latency_ns` (means).
    """

    chunks: Table
    pools: Table
    now_ns: int
    epoch_ns: int
    chunk_bytes: int


class Placement(Protocol):
    """A placement of one's own: a class that is called without arguments and makes one of these.

    `propose` is called at the end of each epoch and returns moves, best first: pairs of a chunk's
    and a pool's number. A chunk moves once an epoch, and not to where it is. An arrival needs a
    free chunk after the moves before it, so that a move that makes room goes first. The volume may
    carry out the first moves only. An attribute `name` is what tables call it.

    This one exchanges chunks that nobody asked for against those that had most requests:

    >>> class Exchange:
    ...     name = "exchange"
    ...     def propose(self, epoch):
    ...         chunks = epoch["chunks"].to_dicts()
    ...         asked = lambda chunk: chunks[chunk]["reads"] + chunks[chunk]["writes"]
    ...         slow = [n for n, row in enumerate(chunks) if row["pool"] > 0 and asked(n) > 0]
    ...         idle = [n for n, row in enumerate(chunks) if row["pool"] == 0 and asked(n) == 0]
    ...         hot = sorted(slow, key=asked, reverse=True)
    ...         return [move for up, down in zip(hot, idle) for move in ((down, 1), (up, 0))]
    >>> from thermocline import trace
    >>> made = trace.synth("fileserver", requests=2_000, vms=1, seed=1)
    >>> pools = '''
    ... [[pool]]
    ... profile = "nvme"
    ... size = "50%"
    ... [[pool]]
    ... profile = "hdd-7200"
    ... size = "200%"
    ... '''
    >>> rows = simulate(made, [Exchange, "static"], epoch="5s", pools=pools).to_dicts()
    >>> rows[0]["policy"], rows[0]["moves_proposed"] > 0
    ('exchange', True)
    """

    def propose(self, epoch: Epoch, /) -> Iterable[tuple[int, int]]: ...


PlacementClass = Callable[[], Placement]
Placements = Union[str, PlacementClass, Iterable[Union[str, PlacementClass]], None]


def simulate(
    trace: Trace | Path | Iterable[Trace | Path],
    policies: Placements = None,
    *,
    pools: Path | None = None,
    chunk: str | int | None = None,
    epoch: str | None = None,
    closed: int | None = None,
    speed: float = 1.0,
    thin: bool = False,
    seed: int = 1,
    progress: Progress = None,
) -> Table:
    """Runs a volume under the trace with each placement; a row a placement and pool.

    Arguments are options of `thermocline lab volume`, with the same defaults. A placement is a name
    of the registry with settings, `"./mine.so:name"` from a shared library
    (include/thermocline_placement.h), or a class (`Placement`). `pools` is a TOML file, or its
    text. Columns of the whole run are repeated in each of its pools' rows.

    >>> from thermocline import trace
    >>> made = trace.synth("fileserver", requests=2_000, vms=1, seed=1)
    >>> rows = simulate(made, ["static", "baseline"], epoch="30s").to_dicts()
    >>> [row["policy"] for row in rows]
    ['static', 'static', 'baseline', 'baseline']
    >>> rows[0]["all_mean_s"] > 0
    True
    """
    options = {
        "pools": pools,
        "chunk": chunk,
        "epoch": epoch,
        "closed": closed,
        "speed": speed,
        "thin": thin,
        "seed": seed,
    }
    return _native.volume_simulate(trace, policies, options, callback(progress))
