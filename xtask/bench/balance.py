"""The live balancer, measured from outside.

    balance.py speed BINARY FOLDER [--rounds N] [--seconds S]
    balance.py fibonacci BINARY FOLDER [--repeats N] [--seconds S] [--policies NAME,…] [--balancers M,…]
    balance.py connections BINARY FOLDER [--connections N] [--seconds S] [--only crowd|faults]
    balance.py conformance BINARY FOLDER

- `speed`: processor time a request, throughput and latency beside HAProxy and nginx.
- `fibonacci`: the experiment of 001 §3.3: eight workers that compute Fibonacci numbers, clients in bursts, reports each second.
- `connections`: thousands of open connections; and servers that die, hang, answer garbage, lie and flap.
- `conformance`: what becomes of messages at the edges of HTTP/1.1 and HTTP/2, beside HAProxy and nginx.

What is measured, and how, is told at the head of each part's file. Prints JSON; its `table` is what people read.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile

import balance_conformance
import balance_connections
import balance_fibonacci
import balance_speed

PARTS = {"speed": balance_speed, "fibonacci": balance_fibonacci, "connections": balance_connections,
         "conformance": balance_conformance}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=PARTS)
    parser.add_argument("built", help="the program")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("--binary", help="a program to take instead")
    parser.add_argument("--ahead", action="store_true", help="of other programs here: a session of its own, favoured (Linux's autogroups; root)")
    parser.add_argument("--seconds", type=int, help="of a round (3), a repeat (120), or of each fault (8)")
    parser.add_argument("--rounds", type=int, default=9, help="speed")
    parser.add_argument("--http2", action="store_true", help="speed: clients speak HTTP/2 to the proxies")
    parser.add_argument("--top", default="", help="speed: further lines of our configuration")
    parser.add_argument("--proxy-cores", default="0-1", help="speed: where proxies run")
    parser.add_argument("--client-cores", default="0-1", help="speed: where clients and servers run")
    parser.add_argument("--repeats", type=int, default=5, help="fibonacci: seeds")
    parser.add_argument("--policies", default=balance_fibonacci.POLICIES, help="fibonacci")
    parser.add_argument("--balancers", default="1,4", help="fibonacci: how many before the same workers")
    parser.add_argument("--seed", type=int, default=1, help="fibonacci: the first")
    parser.add_argument("--service", type=float, default=1.0, help="fibonacci: what a request takes on average, seconds")
    parser.add_argument("--index", type=float, default=20, help="fibonacci: of dispersion, of arrivals")
    parser.add_argument("--share", type=float, default=0.7, help="fibonacci: of requests that come in bursts")
    parser.add_argument("--burst", type=float, default=4.0, help="fibonacci: length of a burst, seconds")
    parser.add_argument("--connections", type=int, default=10_000, help="connections: kept open")
    parser.add_argument("--only", choices=["crowd", "faults"], help="connections: one half of it")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that what was started is ended
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    args.seconds = args.seconds or {"speed": 3, "fibonacci": 120, "connections": 8, "conformance": 0}[args.what]
    if args.ahead:
        if os.getpgrp() != os.getpid():
            os.setsid()
        pathlib.Path("/proc/self/autogroup").write_text("-15")
    with tempfile.TemporaryDirectory(prefix="balance-", dir=args.kept) as folder:
        text, rows = PARTS[args.what].run(args, pathlib.Path(folder).resolve())
    json.dump({"table": text, "rows": rows}, sys.stdout)


main()
