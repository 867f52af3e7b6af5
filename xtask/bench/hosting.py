"""Clones of one image on two hosts of one store, live, and one machine alone beside nbdkit and qemu-nbd.

    hosting.py hosting BINARY KEPT [--repeats N] [--binary PATH] [--only second,storm,alone]

1. The image: an ext4 file system made by `mke2fs -d` of programs and libraries of this machine. The record: files of it in a drawn but
   fixed order, until 64 MiB have been read; of each its inode's block and then its data, up to 128 KiB at a time, nothing twice. It
   stands for a boot.
2. `second`: the record is replayed on one machine and then on a second one, another clone: on the same host, on another host that does
   not know the first, and on another host that does (`peers-first`). With SeaCache's protocol and with maps that are handed over
   (`manifest`). Store and agents are started anew for each.
3. `storm`: 10 and 20 clones on two hosts begin at the same moment.
4. `alone`: one machine whose host has everything cached, nbdkit's file plugin and qemu-nbd on the same file, in turn: latency as a
   client waits, and processor time of the server.

Everything is on this machine, over loopback without TLS. Times on a busy machine mean nothing alone: runs that are compared stand beside
each other and are repeated, and what is told is their ratios. What is expected stands in docs/results/hosting.md.
Prints JSON; its `table` is what people read.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

from balance_processes import free_ports
from nbd import cpu_seconds, wait_for

CLIENT = pathlib.Path(__file__).with_name("hosting_client.py")
SOURCES = ["/usr/lib/python3.11", "/usr/lib/python3", "/usr/share/perl", "/usr/lib/git-core", "/usr/bin"]
TREE_BYTES, FILE_BYTES_MAX, READ_BYTES, REQUEST_BLOCKS, BLOCK = 192 << 20, 4 << 20, 64 << 20, 32, 4096
IMAGE_MIB = 288
PROTOCOLS = ["seacache", "manifest"]
# Second machine: on which host, and do hosts know each other?
PLACES = {"same host": (1, False), "other host": (2, False), "other host, peers": (2, True)}


def make_tree(folder):
    """Copies of regular files of this machine, in the order of their names."""
    total = 0
    for source in filter(lambda path: path.is_dir(), map(pathlib.Path, SOURCES)):
        for path in sorted(source.rglob("*")):
            if path.is_symlink() or not path.is_file() or not 0 < path.stat().st_size <= FILE_BYTES_MAX or " " in str(path):
                continue
            total += path.stat().st_size
            if total > TREE_BYTES:
                return
            target = folder / str(path).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def make_image(place):
    tree, image = place / "tree", place / "image.raw"
    make_tree(tree)
    with open(image, "wb") as file:
        file.truncate(IMAGE_MIB << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-d", str(tree), "-U", "00000000-0000-0000-0000-000000000001", str(image)], check=True)
    files = ["/" + str(path.relative_to(tree)) for path in sorted(tree.rglob("*")) if path.is_file()]
    shutil.rmtree(tree)
    return image, files


def make_record(place, image, files):
    """Reads (offset, length) of files in a drawn order; what a guest has read once stays in its own memory."""
    random.Random(22).shuffle(files)
    commands = place / "debugfs"
    commands.write_text("".join(f"imap {path}\nblocks {path}\n" for path in files))
    told = subprocess.run(["debugfs", "-f", str(commands), str(image)], capture_output=True, text=True, check=True).stdout
    seen, reads, total = set(), [], 0
    for line in told.splitlines():
        inode = re.search(r"located at block (\d+)", line)
        blocks = [int(inode[1])] if inode else [int(word) for word in line.split()] if re.fullmatch(r"[\d ]+", line) else []
        run = []
        for block in [block for block in blocks if block and block not in seen] + [None]:
            if run and (block != run[-1] + 1 if block else True) or len(run) == REQUEST_BLOCKS:
                reads.append((run[0] * BLOCK, len(run) * BLOCK))
                total += len(run) * BLOCK
                run = []
            run.append(block)
        seen.update(blocks)
        if total >= READ_BYTES:
            break
    record = place / "record"
    record.write_text("".join(f"{offset} {length}\n" for offset, length in reads))
    return record, len(reads), total


class Site:
    """A store and its hosts, in a folder; they end when it is left."""

    def __init__(self, args, place, protocol="manifest", peers=False, hosts=(1, 2), lookup=None):
        self.args, self.place, self.servers = args, place, []
        self.protocol, self.peers, self.hosts = protocol, peers, hosts
        self.lookup = lookup or ("peers-first" if peers else "server-first")

    def __enter__(self):
        for left in self.place.glob("*.sock"):
            left.unlink()
        port, *listen = free_ports(1 + len(self.hosts))
        ports = dict(zip(self.hosts, listen))
        lines = [f'device = "{self.args.store}"', f'listen = "127.0.0.1:{port}"', f'protocol = "{self.protocol}"', f'lookup = "{self.lookup}"',
                 'lease = "1s"', f'socket = "{self.place}/store.sock"']
        self.store = self.start("store", lines, "store.sock")
        for host in self.hosts:
            lines = [f"id = {host}", f'store = "127.0.0.1:{port}"', f'protocol = "{self.protocol}"', 'cache = "512MiB"', f'nbd = "{self.place}/{host}.nbd.sock"',
                     f'socket = "{self.place}/{host}.sock"', f'lookup = "{self.lookup}"']
            if self.peers:
                lines.append(f'listen = "127.0.0.1:{ports[host]}"')
                lines += [f'[[peer]]\nid = {other}\naddress = "127.0.0.1:{ports[other]}"' for other in self.hosts if other != host]
            self.start("host", lines, f"{host}.sock")
        until = time.time() + 30
        while self.peers and any(not self.told(host)["peers"] for host in self.hosts):
            if time.time() > until:
                sys.exit("the hosts do not find each other")
            time.sleep(0.05)
        return self

    def start(self, what, lines, socket_name):
        config = self.place / f"{what}-{len(self.servers)}.toml"
        config.write_text("\n".join(lines) + "\n")
        log = open(config.with_suffix(".log"), "w")
        process = subprocess.Popen([self.args.binary, what, "serve", "--config", str(config)], stdout=subprocess.DEVNULL, stderr=log)
        self.servers.append(process)
        wait_for(self.place / socket_name, process)
        return process

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)

    def told(self, host):
        return json.loads(subprocess.check_output([self.args.binary, "host", "status", "--json", "--socket", str(self.place / f"{host}.sock")]))

    def attach(self, host, volume):
        subprocess.run([self.args.binary, "host", "attach", volume, "--socket", str(self.place / f"{host}.sock")], check=True, stdout=subprocess.DEVNULL)
        until = time.time() + 60
        while not any(it["name"] == volume and it["state"] == "attached" for it in self.told(host)["volumes"]):
            if time.time() > until:
                sys.exit(f"{volume} is not attached: {self.told(host)['volumes']}")
            time.sleep(0.05)

    def client(self, host, volume, start=0):
        return subprocess.Popen([sys.executable, CLIENT, str(self.place / f"{host}.nbd.sock"), volume, str(self.args.record), "1", str(start)], stdout=subprocess.PIPE)

    def replay(self, host, volume):
        """Replays the record on a volume that is attached; what the client saw."""
        return answer(self.client(host, volume), self.args.checksum)


def grown(before, after):
    """Growth of a host's counts."""
    return {key: after[key] - value for key, value in before.items() if key.endswith(("_bytes", "_blocks")) and isinstance(value, int)}


def answer(client, checksum):
    seen = json.loads(client.communicate()[0] or sys.exit("a client failed"))
    if seen["checksum"] != checksum:
        sys.exit(f"a client read wrong bytes: {seen}")
    return seen


def second(args, place):
    rows = []
    for turn in range(args.repeats):
        for protocol in PROTOCOLS:
            for name, (host, peers) in PLACES.items():
                with Site(args, place, protocol, peers) as site:
                    start = {of: site.told(of) for of in site.hosts}
                    # Both machines are there from the beginning, and the map of their image counts for the first.
                    site.attach(1, "vm1")
                    site.attach(host, "vm2")
                    runs, before = [site.replay(1, "vm1")], site.told(1)
                    first = grown(start[1], before)
                    runs.append(site.replay(host, "vm2"))
                    other = grown(before if host == 1 else start[host], site.told(host))
                rows.append({"turn": turn, "protocol": protocol, "place": name, "latency": runs[1]["mean_us"] / runs[0]["mean_us"], "first_us": runs[0]["mean_us"],
                             "first_bytes": first["received_bytes"], "bytes": other["received_bytes"], "peer_bytes": other["peer_received_bytes"],
                             "known": other["hit_blocks"] / other["read_blocks"]})
    return rows


def storm(args, place):
    rows = []
    for protocol in PROTOCOLS:
        for peers in (False, True):
            for clones in (10, 20):
                with Site(args, place, protocol, peers) as site:
                    placed = [(1 + at % 2, f"vm{at + 1}") for at in range(clones)]
                    before = [site.told(host) for host in site.hosts]
                    for host, volume in placed:
                        site.attach(host, volume)
                    start = time.time() + 3
                    clients = [site.client(host, volume, start) for host, volume in placed]
                    seen = [answer(client, args.checksum) for client in clients]
                    after = [site.told(host) for host in site.hosts]
                growth = [grown(early, late) for early, late in zip(before, after)]
                sums = {key: sum(one[key] for one in growth) for key in ("received_bytes", "peer_received_bytes", "read_blocks", "hit_blocks")}
                rows.append(sums | {"protocol": protocol, "peers": peers, "clones": clones, "mean_us": statistics.fmean(run["mean_us"] for run in seen)})
    return rows


def alone(args, place):
    """Latency and processor time a request of each server, turn by turn; ours has the image cached."""
    rows, sockets = {"agent": [], "nbdkit": [], "qemu-nbd": []}, {name: place / f"{name}.sock" for name in ("nbdkit", "qemu-nbd")}
    with Site(args, place, hosts=(1,)) as site:
        site.attach(1, "vm1")
        site.replay(1, "vm1")
        commands = {"nbdkit": ["nbdkit", "-f", "-r", "-U", str(sockets["nbdkit"]), "file", str(args.image)],
                    "qemu-nbd": ["qemu-nbd", "-t", "-r", "-e", "4", "-f", "raw", "-k", str(sockets["qemu-nbd"]), str(args.image)]}
        running = {name: subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name, command in commands.items()}
        for name, process in running.items():
            wait_for(sockets[name], process)
        doors = {"agent": (site.servers[1], place / "1.nbd.sock", "vm1")} | {name: (process, sockets[name], "") for name, process in running.items()}
        for turn in range(args.repeats + 1):
            names = list(doors)
            for name in names[turn % 3:] + names[:turn % 3]:
                process, path, export = doors[name]
                before = cpu_seconds(process.pid)
                ran = subprocess.run([sys.executable, CLIENT, str(path), export, str(args.record), str(args.passes)], stdout=subprocess.PIPE, check=True)
                seen = json.loads(ran.stdout)
                if turn > 0:  # The first turn fills caches.
                    rows[name].append({"mean_us": seen["mean_us"], "p99_us": seen["p99_us"], "cpu_us": (cpu_seconds(process.pid) - before) * 1e6 / seen["requests"]})
        for process in running.values():
            process.terminate()
            process.wait()
    return rows


def spread(values, form="{:.2f}"):
    return f"{form} ({form} to {form})".format(statistics.median(values), min(values), max(values))


def second_table(rows):
    text = "| protocol | second machine on | mean latency, second to first | from the store, second to first | from hosts, MiB | known from the map |\n|---|---|---:|---:|---:|---:|\n"
    for protocol in PROTOCOLS:
        for place in PLACES:
            these = [row for row in rows if (row["protocol"], row["place"]) == (protocol, place)]
            peers = statistics.median(row["peer_bytes"] for row in these) / 2**20
            text += (f"| {protocol} | {place} | {spread([row['latency'] for row in these])} | {spread([row['bytes'] / row['first_bytes'] for row in these], '{:.3f}')} "
                     f"| {peers:.1f} | {spread([row['known'] * 100 for row in these], '{:.1f}')} % |\n")
    return text


def storm_table(args, rows):
    text = "| protocol | hosts know each other | clones | from the store, MiB | share of plain NBD | between hosts, MiB | blocks from cache |\n|---|---|---:|---:|---:|---:|---:|\n"
    for row in rows:
        plain = row["clones"] * args.read_bytes
        text += (f"| {row['protocol']} | {'yes' if row['peers'] else 'no'} | {row['clones']} | {row['received_bytes'] / 2**20:.1f} | {row['received_bytes'] / plain * 100:.1f} % "
                 f"| {row['peer_received_bytes'] / 2**20:.1f} | {row['hit_blocks'] / row['read_blocks'] * 100:.1f} % |\n")
    return text


def alone_table(rows):
    text = "| | beside nbdkit, file plugin | beside qemu-nbd, raw |\n|---|---:|---:|\n"
    for key, name in (("mean_us", "mean latency"), ("p99_us", "99th percentile"), ("cpu_us", "processor time of the server")):
        cells = [spread([ours[key] / other[key] for ours, other in zip(rows["agent"], rows[rival])]) for rival in ("nbdkit", "qemu-nbd")]
        text += f"| {name} | " + " | ".join(cells) + " |\n"
    figures = [f"{name} {statistics.median(row['mean_us'] for row in rows[name]):.0f} and {statistics.median(row['cpu_us'] for row in rows[name]):.1f}" for name in rows]
    return text + "\nMedians of mean latency and of processor time, µs a request: " + ", ".join(figures) + "\n"


def prepare(args, place):
    """Image, record, a store with the image, and twenty clones of it."""
    args.image, files = make_image(place)
    args.record, requests, args.read_bytes = make_record(place, args.image, files)
    args.store = place / "store.img"
    subprocess.run([args.binary, "store", "create", str(args.store), "--size", "2GiB"], check=True, stdout=subprocess.DEVNULL)
    with Site(args, place, hosts=()):
        socket_of = ["--socket", str(place / "store.sock")]
        subprocess.run([args.binary, "store", "image", "import", str(args.image), "base", *socket_of], check=True, stdout=subprocess.DEVNULL)
        for at in range(20):
            subprocess.run([args.binary, "store", "clone", "base", f"vm{at + 1}", *socket_of], check=True, stdout=subprocess.DEVNULL)
    with open(args.image, "rb") as image:
        args.checksum = 0
        for line in args.record.read_text().splitlines():
            offset, length = map(int, line.split())
            image.seek(offset)
            args.checksum = zlib.crc32(image.read(length), args.checksum)
    return f"{len(files)} files in an image of {IMAGE_MIB} MiB; the record: {requests} reads of {args.read_bytes / requests / 1024:.0f} KiB in the mean, {args.read_bytes / 2**20:.0f} MiB\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hosting"])
    parser.add_argument("built", help="the program")
    parser.add_argument("kept", help="folder for what is made")
    parser.add_argument("--binary", help="a program to take instead")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--passes", type=int, default=4, help="replays in one run of `alone`")
    parser.add_argument("--only", default="second,storm,alone")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary or args.built).resolve())
    wanted = args.only.split(",")
    with tempfile.TemporaryDirectory(dir=args.kept, prefix="hosting-") as folder:
        place = pathlib.Path(folder)
        told = {"table": prepare(args, place)}
        if "second" in wanted:
            told["second"] = second(args, place)
            told["table"] += "\n" + second_table(told["second"])
        if "storm" in wanted:
            told["storm"] = storm(args, place)
            told["table"] += "\n" + storm_table(args, told["storm"])
        if "alone" in wanted:
            told["alone"] = alone(args, place)
            told["table"] += "\n" + alone_table(told["alone"])
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
