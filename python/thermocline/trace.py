"""Traces: made ones, and what traces are like."""

from __future__ import annotations

from . import _native
from ._native import Trace


def synth(
    preset: str = "mixed",
    *,
    vms: int | None = None,
    requests: int | str | None = None,
    seed: int | None = None,
    spec: str | None = None,
) -> Trace:
    """Makes a workload: a preset, its short form (`"mixed,vms=4"`), or a `spec` in TOML.

    The requests are made when they are read, and are the same each time.

    >>> import pyarrow
    >>> table = pyarrow.table(synth("oltp", requests="1k", seed=7))
    >>> table.num_rows
    1000
    """
    return _native.synth_trace(preset, spec, vms, requests, seed)
