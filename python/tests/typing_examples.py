"""Calls that mypy must accept; they are not run."""

from pathlib import Path

import thermocline
from thermocline import balance, cache, trace, volume
from thermocline.cache import ADMITTED, Geometry
from thermocline.engine import Engine
from thermocline.volume import Epoch


class Mine:
    def __init__(self, geometry: Geometry) -> None:
        self.room = geometry["lines"]

    def access(self, lines: list[int]) -> list[int]:
        return [ADMITTED for _ in lines]


class Up:
    def propose(self, epoch: Epoch) -> list[tuple[int, int]]:
        room: int = epoch["pools"]["free_chunks"][0]
        return [(chunk, 0) for chunk, pool in enumerate(epoch["chunks"]["pool"]) if pool][:room]


def examples(path: Path) -> list[dict[str, object]]:
    opened = thermocline.open(path, "other.csv", format="msr")
    table = cache.simulate([opened, path], [Mine, "lru"], ["5%", 4096], progress=True)
    cache.simulate(trace.synth("oltp"), Mine, 4096, progress=lambda what, done, total: None)
    volume.simulate(opened, [Up, "static"], epoch="30s")
    balance.simulate(policies="p2c", sites=16)
    counts = thermocline.sweep(path, "results", on="ray", workers=8, retries=2)
    print(counts["done_now"], thermocline.sweep(path, dry_run=True)["rows"])
    state: str = Engine().status()["state"]
    return [*table.to_dicts(), {"state": state}]
