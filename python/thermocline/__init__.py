"""The laboratory of thermocline: traces of block storage, caches and placements, from Python.

Every argument has the name and the form of the command's option: sizes are `"4GiB"`, `"10%"` or
`"1000lines"`, times are `"5m"`, policies are `"lirs:hir=0.02"`. Results are tables that pyarrow,
polars, pandas and DuckDB take without a copy, because they speak the Arrow PyCapsule interface.

>>> import thermocline
>>> from thermocline import cache, trace
>>> made = trace.synth("oltp", requests=20_000, seed=1)
>>> table = cache.simulate(made, policies=["lru", "arc"], sizes="5%")
>>> table["policy"]
['lru', 'arc']
"""

from __future__ import annotations

from os import PathLike
from typing import Union

from . import _native
from ._native import Table, Trace

Path = Union[str, "PathLike[str]"]


def open(
    *paths: Path,
    format: str | None = None,
    columns: str | None = None,
    blkparse_event: str | None = None,
) -> Trace:
    """Opens a trace; several are merged into one workload, each from its own time zero.

    The format is found from the content unless `format` names it; `columns` describes a text in
    columns, as `thermocline trace stat --columns` does. The result is a stream of record batches
    with the columns `time_ns`, `volume`, `op`, `offset_bytes`, `length_bytes` and `response_ns`;
    whoever reads it again begins anew.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "small.csv")
    >>> lines = ["0,R,0,4096", "1000,W,8192,4096"]
    >>> _ = path.write_text("\\n".join(lines) + "\\n")
    >>> opened = open(path, columns="time=0:us,op=1,offset=2,size=3")
    >>> import pyarrow
    >>> pyarrow.table(opened).column("op").to_pylist()
    ['read', 'write']

    Raises `ValueError` when a trace cannot be read; the message names the line or byte. What is
    wrong further on in the trace ends the stream with an error.
    """
    return _native.open(list(paths), format=format, columns=columns, blkparse_event=blkparse_event)


from . import balance, cache, dedup, engine, experiments, trace, volume  # noqa: E402
from ._sweep import sweep  # noqa: E402

__all__ = [
    "Path",
    "Table",
    "Trace",
    "balance",
    "cache",
    "dedup",
    "engine",
    "experiments",
    "open",
    "sweep",
    "trace",
    "volume",
]
