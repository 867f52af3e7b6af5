"""Reads in order and at random from a pool in a bucket, with and without reading ahead.

    bucket.py bucket BINARY KEPT [--repeats N] [--link RATE] [--latency TIME] [--binary PATH]

1. moto's server keeps the bucket. The engine has a small pool in a file and one in the bucket, chunks of 1 MiB, no block cache, and its
   emulated link. fio fills the volume in order, so that all but the first 48 MiB come to the bucket.
2. The engine is started anew. fio reads 64 MiB of the bucket's part, 128 KiB at a time, one request after the other; then 32 MiB at random.
3. With `read-ahead = "8MiB"` and with `"none"`, in turns.

docs/results/bucket.md has what was expected. Prints JSON; its `table` is what people read.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from balance_processes import free_ports
from live import Live

CONFIG = """
data = "data"
[[pool]]
name = "file"
size = "64MiB"
[[pool]]
name = "cloud"
path = "s3://cold/pool"
size = "256MiB"
[pool.s3]
endpoint = "http://127.0.0.1:{port}"
link = "{link}"
link-latency = "{latency}"
read-ahead = "{ahead}"
[[volume]]
name = "v0"
size = "192MiB"
"""
FROM, IN_ORDER, AT_RANDOM = 96, 64, 32
MIB = 1 << 20


class Store:
    """moto's server with a bucket `cold`."""

    def __enter__(self):
        [self.port] = free_ports(1)
        try:
            self.process = subprocess.Popen(["moto_server", "-H", "127.0.0.1", "-p", str(self.port)], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            sys.exit("there is no moto_server; pip install 'moto[server]'")
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/cold", method="PUT", data=b""), timeout=10)
                return self
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit("moto's server does not come up")
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def received(up):
    return next(pool["bucket"]["received_bytes"] for pool in up.told("status")["pools"] if pool.get("bucket"))


def measured(up, *arguments):
    """(MB/s of fio, bytes received for each byte read)."""
    before = received(up)
    said = up.fio("--bs=128k", "--iodepth=1", "--output-format=json", *arguments)
    answer, _ = json.JSONDecoder().raw_decode(said, said.index("{"))  # fio's warnings stand around it.
    job = answer["jobs"][0]["read"]
    return job["bw_bytes"] / 1e6, (received(up) - before) / job["io_bytes"]


def run(args, place, ahead):
    place.mkdir()
    with Store() as store:
        config = place / "engine.toml"
        text = CONFIG.format(port=store.port, link=args.link, latency=args.latency, ahead=ahead)
        config.write_text(text.replace(f'link = "{args.link}"\nlink-latency = "{args.latency}"\n', ""))
        with Live(args.binary, place / "data", [str(config)]) as up:
            up.fio("--rw=write", "--bs=1m", "--iodepth=4", "--size=192m", "--end_fsync=1")
        config.write_text(text)  # Filling it needs no link.
        with Live(args.binary, place / "data", [str(config)]) as up:
            part = f"--offset={FROM}m"
            order = measured(up, "--rw=read", part, f"--size={IN_ORDER}m")
            chance = measured(up, "--rw=randread", part, "--size=96m", f"--io_size={AT_RANDOM}m", "--norandommap", "--randseed=1")
    return order, chance


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bucket"])
    parser.add_argument("built", help="the engine")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("--binary", help="an engine to take instead")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--link", default="200Mbps")
    parser.add_argument("--latency", default="30ms")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    os.environ.setdefault("AWS_REGION", "us-east-1")
    runs = {"8MiB": [], "none": []}
    for _ in range(args.repeats):
        for ahead, rows in runs.items():
            with tempfile.TemporaryDirectory(dir=args.kept) as folder:
                rows.append(run(args, pathlib.Path(folder) / "group", ahead))
    text = f"Link of {args.link}, {args.latency} one way; 128 KiB at a time, one request after the other; median [range] of {args.repeats} runs\n\n"
    text += "| read-ahead | in order, MB/s | bytes received for each read | at random, MB/s | bytes received for each read |\n|---|---:|---:|---:|---:|\n"
    for ahead, rows in runs.items():
        cells = []
        for kind in (0, 1):
            for figure in (0, 1):
                values = [row[kind][figure] for row in rows]
                cells.append(f"{statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]")
        text += f"| {ahead} | " + " | ".join(cells) + " |\n"
    print(json.dumps({"command": "bucket", "arguments": vars(args), "runs": runs, "table": text}))


if __name__ == "__main__":
    main()
