"""Published figures and tables, run again: what `thermocline lab run` does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import Path, _native
from ._progress import Progress, callback


def run(
    folder: Path,
    *,
    traces: Path | Iterable[Path] | None = None,
    stand_ins: Path | Iterable[Path] | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """Runs the experiment in `folder`; what `lab run --json` prints, with `holds` and `markdown`.

    `traces` are folders with the published traces, `stand_ins` with those that the experiment names
    in their place. `holds` is whether every expected feature appeared.
    """
    return _native.experiments_run(folder, traces, stand_ins, callback(progress))
