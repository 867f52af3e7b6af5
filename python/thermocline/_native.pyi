"""The compiled part. Its functions are called through the package, which documents them."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, final

@final
class Trace:
    @property
    def names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Table:
    @property
    def column_names(self) -> list[str]: ...
    @property
    def about(self) -> dict[str, Any]: ...
    def to_dicts(self) -> list[dict[str, Any]]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> list[Any]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Sweep:
    @property
    def plan_blake3(self) -> str: ...
    @property
    def folder(self) -> PathLike[str]: ...
    @property
    def missing(self) -> list[int]: ...
    def close(self) -> None: ...
    def still_missing(self) -> list[int]: ...
    def job(self, number: int) -> tuple[str, str, int]: ...
    def drive(self, workers: int | None, progress: object | None) -> dict[str, Any]: ...
    def outcome(self, done_now: int, errors_now: int) -> dict[str, Any]: ...
    def outcome_text(self, done_now: int, errors_now: int) -> str: ...
    def __len__(self) -> int: ...

def open(
    paths: Sequence[str | PathLike[str]],
    format: str | None = None,
    columns: str | None = None,
    blkparse_event: str | None = None,
) -> Trace: ...
def synth_trace(
    preset: str | None = None,
    spec: str | None = None,
    vms: int | None = None,
    requests: int | str | None = None,
    seed: int | None = None,
) -> Trace: ...
def cache_simulate(
    trace: object,
    policies: object | None,
    sizes_wanted: object | None,
    model: Mapping[str, Any],
    progress: object | None,
) -> Table: ...
def cache_mrc(
    trace: object,
    policies: object | None,
    sizes_wanted: object | None,
    method: str,
    model: Mapping[str, Any],
    progress: object | None,
) -> Table: ...
def trace_stat(trace: object, progress: object | None) -> dict[str, Any]: ...
def volume_simulate(
    trace: object,
    policies: object | None,
    machine_options: Mapping[str, Any],
    progress: object | None,
) -> Table: ...
def balance_simulate(
    trace: object | None,
    policies: object | None,
    system: Mapping[str, Any],
    progress: object | None,
) -> Table: ...
def dedup_estimate(
    paths: Sequence[str | PathLike[str]],
    chunkings: object | None,
    cache: object | None,
    progress: object | None,
) -> Table: ...
def experiments_run(
    folder: str | PathLike[str],
    published: object | None,
    stand_ins: object | None,
    progress: object | None,
) -> dict[str, Any]: ...
def sweep_begin(
    plan: str | PathLike[str],
    out: str | PathLike[str],
    command: str,
    memory: bool,
) -> Sweep: ...
def sweep_estimate(plan: str | PathLike[str]) -> dict[str, Any]: ...
def sweep_job(
    folder: str | PathLike[str], plan_blake3: str, job: str, threads: int
) -> tuple[int, str | None]: ...
