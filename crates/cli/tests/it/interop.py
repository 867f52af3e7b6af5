"""Opens a trace that `thermocline` wrote with pandas, polars and DuckDB, and writes it again with each.

Called by interop.rs in a folder with `trace.parquet`. Prints one line a library: its name, rows, sums of
the numbers, volumes, known responses; leaves `<library>.parquet` for `thermocline` to read.
"""

import duckdb
import pandas
import polars

NUMBERS = ["time_ns", "offset_bytes", "length_bytes", "response_ns"]


def told(library, rows, sums, volumes, responses):
    print(library, rows, *(int(value) for value in sums), volumes, responses)


frame = pandas.read_parquet("trace.parquet")
told("pandas", len(frame), [frame[name].sum() for name in NUMBERS],
     frame["volume"].nunique(), frame["response_ns"].notna().sum())
frame.to_parquet("pandas.parquet")

lazy = polars.scan_parquet("trace.parquet")
frame = lazy.collect()
told("polars", frame.height, [frame[name].sum() for name in NUMBERS],
     frame["volume"].n_unique(), frame["response_ns"].count())
frame.write_parquet("polars.parquet")

sums = ", ".join(f"sum({name})" for name in NUMBERS)
rows, *sums, volumes, responses = duckdb.sql(
    f"SELECT count(*), {sums}, count(DISTINCT volume), count(response_ns) FROM 'trace.parquet'").fetchall()[0]
told("duckdb", rows, sums, volumes, responses)
duckdb.sql("COPY (FROM 'trace.parquet') TO 'duckdb.parquet'")
