"""Traces: made ones, and what traces are like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import Path, _native
from ._native import Trace
from ._progress import Progress, callback


def synth(
    preset: str | None = None,
    *,
    vms: int | None = None,
    requests: int | str | None = None,
    seed: int | None = None,
    spec: str | None = None,
) -> Trace:
    """Makes a workload: a preset, its short form (`"mixed,vms=4"`), or a `spec` in TOML.

    The preset is `"mixed"` when neither it nor a `spec` is given. A `spec` excludes `preset` and
    `vms`, which it describes itself; `requests` and `seed` replace its own.
    The requests are made when they are read, and are the same each time.

    >>> import pyarrow
    >>> table = pyarrow.table(synth("oltp", requests="1k", seed=7))
    >>> table.num_rows
    1000
    """
    return _native.synth_trace(preset, spec, vms, requests, seed)


def stat(trace: Trace | Path | Iterable[Trace | Path], *, progress: Progress = None) -> dict[str, Any]:
    """Tells what a trace and each of its volumes are like, as `thermocline trace stat --json` does.

    docs/guides/traces.md defines every value; units are in the names.

    >>> found = stat(synth("oltp", requests=1000, vms=2, seed=1))
    >>> found["workload"]["requests"], len(found["volumes"])
    (1000, 2)
    """
    return _native.trace_stat(trace, callback(progress))
