"""Redundancy of files: what `thermocline dedup estimate` tells."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

from . import Path, _native
from ._native import Table
from ._progress import Progress, callback


def estimate(
    paths: Path | Iterable[Path],
    chunkings: str | Iterable[str] | None = None,
    *,
    cache: str | int | None = None,
    progress: Progress = None,
) -> Table:
    """Tells what a tunnel would save of some files and folders; a row a chunking.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = pathlib.Path(folder.name, "a").write_bytes(bytes(range(256)) * 400)
    >>> row = estimate(folder.name, "fixed:512B").to_dicts()[0]
    >>> row["bytes"], row["references"] > 0
    (102400, True)
    """
    named = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    return _native.dedup_estimate(named, chunkings, cache, callback(progress))
