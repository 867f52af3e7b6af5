"""Balancers before servers in virtual time: what `thermocline lab balance` runs."""

from __future__ import annotations

from collections.abc import Iterable

from . import Path, _native
from ._native import Table, Trace
from ._progress import Progress, callback


def simulate(
    trace: Trace | Path | Iterable[Trace | Path] | None = None,
    policies: str | Iterable[str] | None = None,
    *,
    sites: str | int | None = None,
    load: float = 0.5,
    service: str | None = None,
    delay: str | None = None,
    view: str = "exact",
    probes: str = "fresh",
    slowing: str | None = None,
    balancers: int = 1,
    unweighted: bool = False,
    gap: str | None = None,
    bursts: str | None = None,
    requests: str | int | None = None,
    seeds: int = 5,
    seed: int = 1,
    warmup: float = 0.05,
    progress: Progress = None,
) -> Table:
    """Runs every balancer over the same requests; a row each, with the bounds first.

    Arguments are options of `thermocline lab balance`, with the same defaults. Requests come as
    `gap` and `bursts` say, or at the times of a trace.

    >>> table = simulate(policies=["rand", "p2c"], requests="2k", seeds=2)
    >>> table["policy"]
    ['central queue', 'jsq', 'rand', 'p2c']
    """
    options = {
        "sites": sites,
        "load": load,
        "service": service,
        "delay": delay,
        "view": view,
        "probes": probes,
        "slowing": slowing,
        "balancers": balancers,
        "unweighted": unweighted,
        "gap": gap,
        "bursts": bursts,
        "requests": requests,
        "seeds": seeds,
        "seed": seed,
        "warmup": warmup,
    }
    return _native.balance_simulate(trace, policies, options, callback(progress))
