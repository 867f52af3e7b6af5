"""Traces reach every reader of Arrow, and are the same there."""

import gc
import subprocess
import sys

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest

import thermocline
from thermocline import trace

MADE = trace.synth("mixed", requests=150_000, vms=3, seed=5)


def test_pyarrow_polars_pandas_and_duckdb_read_the_same():
    table = pyarrow.table(MADE)
    length = pyarrow.compute.sum(table["length_bytes"]).as_py()
    assert table.num_rows == 150_000
    assert table.schema.names == [
        "time_ns", "volume", "op", "offset_bytes", "length_bytes", "response_ns",
    ]
    assert polars.DataFrame(MADE)["length_bytes"].sum() == length
    frame = pyarrow.RecordBatchReader.from_stream(MADE).read_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["length_bytes"].sum() == length
    made = pyarrow.RecordBatchReader.from_stream(MADE)  # noqa: F841 (DuckDB finds it by its name)
    [(rows, total)] = duckdb.sql("select count(*), sum(length_bytes) from made").fetchall()
    assert (rows, total) == (150_000, length)


def test_pandas_takes_a_trace_as_it_is():
    if not hasattr(pandas.DataFrame, "from_arrow"):
        print(f"SKIPPED: pandas {pandas.__version__} does not take Arrow streams, pandas 3 does")
        pytest.skip("pandas is older than 3")
    frame = pandas.DataFrame.from_arrow(MADE)
    assert list(frame.columns) == pyarrow.table(MADE).schema.names
    assert frame["length_bytes"].sum() == polars.DataFrame(MADE)["length_bytes"].sum()


WITHOUT_PYARROW = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pyarrow":
            raise ImportError(name)

sys.meta_path.insert(0, Nowhere())
import duckdb, thermocline

made = thermocline.open(sys.argv[1])
print(duckdb.sql("select count(*), sum(length_bytes) from made").fetchall())
print(duckdb.sql("select count(*) from made where op = 'write'").fetchall())
assert "pyarrow" not in sys.modules
"""


def test_duckdb_reads_a_trace_without_pyarrow(tmp_path):
    if tuple(map(int, duckdb.__version__.split(".")[:2])) < (1, 2):
        print(f"SKIPPED: DuckDB {duckdb.__version__} reads no Arrow streams by itself, 1.2 does")
        pytest.skip("DuckDB is older than 1.2")
    path = tmp_path / "trace.csv"
    ops = ["Read", "Read", "Write"]
    rows = [f"{128166372003061629 + i},hm,0,{ops[i % 3]},{i * 4096},4096,413" for i in range(90_000)]
    path.write_text("\n".join(rows) + "\n")
    words = [sys.executable, "-c", WITHOUT_PYARROW, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"[(90000, {90_000 * 4096})]\n[(30000,)]\n"


def test_batches_are_streamed_and_outlive_their_stream():
    reader = pyarrow.RecordBatchReader.from_stream(MADE)
    batches = [batch for batch in reader]
    assert [batch.num_rows for batch in batches] == [65536, 65536, 18928]
    del reader
    gc.collect()
    for batch in batches:
        batch.validate(full=True)
    column = batches[0].column("volume")
    del batches
    gc.collect()
    assert len(set(column.to_pylist())) == 3


def test_a_stream_that_is_dropped_unread_is_released():
    for _ in range(100):
        MADE.__arrow_c_stream__()
    gc.collect()


def test_what_is_no_trace_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match="no-such-file"):
        thermocline.open(tmp_path / "no-such-file")
    with pytest.raises(ValueError, match="no trace is named"):
        thermocline.open()
    path = tmp_path / "text"
    path.write_text("root:x:0\n")
    with pytest.raises(ValueError, match="text:1: no known format"):
        thermocline.open(path)
    with pytest.raises(ValueError, match="format: .*nonsense"):
        thermocline.open(path, format="nonsense")


def test_damage_further_on_ends_the_stream_with_its_line(tmp_path):
    path = tmp_path / "damaged.csv"
    lines = ["128166372003061629,hm,0,Read,383496192,32768,413"] * 200_000
    lines[199_000] = "128166372003061629,hm,0,Read,much,32768,413"
    path.write_text("\n".join(lines) + "\n")
    reader = pyarrow.RecordBatchReader.from_stream(thermocline.open(path))
    assert reader.read_next_batch().num_rows == 65536
    with pytest.raises(OSError, match="damaged.csv:199001"):
        reader.read_all()


def test_real_traces_are_read_as_the_command_reads_them(real_traces):
    for path in real_traces:
        opened = thermocline.open(path)
        found = trace.stat(opened)["workload"]
        table = pyarrow.table(opened)
        ops = dict(table["op"].value_counts().to_pylist() and [
            (entry["values"], entry["counts"]) for entry in table["op"].value_counts().to_pylist()
        ])
        assert ops.get("read", 0) == found["reads"]["requests"], path
        assert ops.get("write", 0) == found["writes"]["requests"], path
