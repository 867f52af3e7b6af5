"""Tiered volumes with placements in virtual time: what `thermocline lab volume` runs."""

from __future__ import annotations

from collections.abc import Iterable

from . import Path, _native
from ._native import Table, Trace
from ._progress import Progress, callback


def simulate(
    trace: Trace | Path | Iterable[Trace | Path],
    policies: str | Iterable[str] | None = None,
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

    Arguments are options of `thermocline lab volume`, with the same defaults. `pools` is a TOML
    file, or its text. Columns of the whole run are repeated in each of its pools' rows.

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
