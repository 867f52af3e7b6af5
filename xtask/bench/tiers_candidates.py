"""What `cargo xtask bench tiers` compares: a slow disk, and candidates that put a fast device before it.

A candidate is a function of the run and the disk that returns the arguments which point fio at it, and a function that counts its
read hits and its reads so far, or None. Whatever it keeps besides data (metadata, journals) is on the same two devices. All but
`serve`, which also runs on a host, are for the guest.
"""

import ctypes
import http.client
import os
import pathlib
import socket
import subprocess
import time

import tiers_load

SHARED = pathlib.Path("/mnt")  # the host's folder
PRIVATE = pathlib.Path("/run")
FAST = "/dev/ubdb"
SECTOR = 512
MIB = 2048  # sectors
DM_CACHE_BLOCK = 64 * 1024 // SECTOR
DM_CACHE_METADATA = 8 * MIB  # the kernel's rule is 4 MiB and 16 B a block, rounded up here
LOG_TAIL = 2000  # characters
FINIT_MODULE = 313  # x86-64
ALREADY_THERE = 17
LIBC = ctypes.CDLL(None, use_errno=True)


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout


def insert(run, name, parameters=""):
    """Inserts a module and what it needs. A kernel without a folder of modules must have all of them built in."""
    folder = pathlib.Path(run["modules"]) / os.uname().release
    if not folder.is_dir():
        return
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, rest = line.split(":")
        needs[pathlib.Path(path).stem.replace("-", "_")] = [*reversed(rest.split()), path]
    for path in needs.get(name, []):
        own = parameters if path == needs[name][-1] else ""
        with open(folder / path, "rb") as module:
            if LIBC.syscall(FINIT_MODULE, module.fileno(), own.encode(), 0):
                error = ctypes.get_errno()
                if error != ALREADY_THERE:
                    raise RuntimeError(f"{path}: {os.strerror(error)}")


def appears(path):
    for _ in range(400):
        if os.path.exists(path):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{path} does not appear")


def mapped(name, table):
    call("dmsetup", "--noudevsync", "create", name, "--table", table)
    call("dmsetup", "mknodes", name)
    return f"/dev/mapper/{name}"


def slow_disk(run):
    """A disk whose every request takes the same time: scsi_debug counts nanoseconds, dm-delay the kernel's ticks."""
    insert(run, "dm_mod")
    if run["slow_by"] == "dm-delay":
        insert(run, "dm_delay")
        return mapped("slow", f"0 {run['disk_mib'] * MIB} delay /dev/ubda 0 {run['delay_ms']}")
    insert(run, "sd_mod")
    insert(run, "scsi_debug", f"dev_size_mb={run['disk_mib']} delay=0 ndelay={run['delay_ms'] * 1_000_000}")
    appears("/dev/sda")
    # Without a volatile cache: scsi_debug answers a flush after a twentieth of a second, whatever it is told.
    for kind in pathlib.Path("/sys/class/scsi_disk").glob("*/cache_type"):
        kind.write_text("temporary write through")
    return "/dev/sda"


def direct(device):
    return ["--ioengine=libaio", "--direct=1", f"--filename={device}"]


def reads_of(device):
    number = os.stat(device).st_rdev
    counts = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text().split()
    return int(counts[0]) + int(counts[1])


def disk_alone(run, slow):
    return direct(slow), None


def dm_cache(run, slow):
    for module in ("dm_cache", "dm_cache_smq"):
        insert(run, module)
    metadata = mapped("metadata", f"0 {DM_CACHE_METADATA} linear {FAST} 0")
    data = mapped("data", f"0 {run['fast_mib'] * MIB - DM_CACHE_METADATA} linear {FAST} {DM_CACHE_METADATA}")
    device = mapped("tier", f"0 {run['volume_mib'] * MIB} cache {metadata} {data} {slow} {DM_CACHE_BLOCK} 1 writeback smq 0")

    def hits():
        read_hits, read_misses = map(int, call("dmsetup", "status", "tier").split()[7:9])
        return read_hits, read_hits + read_misses

    return direct(device), hits


def dm_writecache(run, slow):
    insert(run, "dm_writecache")
    device = mapped("tier", f"0 {run['volume_mib'] * MIB} writecache s {slow} {FAST} 4096 0")

    def hits():
        reads, read_hits = map(int, call("dmsetup", "status", "tier").split()[7:9])
        return read_hits, reads

    return direct(device), hits


def bcache(run, slow):
    insert(run, "bcache")
    # With larger buckets it finds 128 MiB too few of them.
    call("make-bcache", "--writeback", "--block", "4k", "--bucket", "64k", "--wipe-bcache", "-C", FAST, "-B", slow)
    for device in (FAST, slow):
        pathlib.Path("/sys/fs/bcache/register").write_text(device)
    settings = pathlib.Path("/sys/block/bcache0/bcache")
    appears(settings / "cache")
    # Nothing goes past the cache because it is sequential, or because the cache is thought to be busy.
    (settings / "sequential_cutoff").write_text("0")
    for threshold in ("congested_read_threshold_us", "congested_write_threshold_us"):
        (settings / "cache" / threshold).write_text("0")
    appears("/dev/bcache0")

    def hits():
        # Its own counters are brought up to date every 13 s only; the disk is not read but for misses.
        reads, misses = reads_of("/dev/bcache0"), reads_of(slow)
        return reads - misses, reads

    return direct("/dev/bcache0"), hits


def table(header, keys):
    return header + "\n" + "".join(f'{key} = "{value}"\n' for key, value in keys.items())


def with_cache(run, fast, slow):
    """A configuration: one pool, and the fast device as a cache before it."""
    return table("[[pool]]", {"name": "slow", **slow}) + \
        f'cache = {{ path = "{fast["path"]}", size = "{run["fast_mib"]}MiB" }}\n'


def two_pools(run, fast, slow):
    """A configuration: the fast device as a pool of its own, to which the most used chunks move."""
    return table("[[pool]]", {"name": "fast", **fast}) + table("[[pool]]", {"name": "slow", **slow}) + \
        table("[policy]", {"name": "baseline", "epoch": "5s"})


ENGINES = {"thermocline, cache before one pool": with_cache, "thermocline, two pools, 1 MiB": two_pools}


def metrics(door):
    link = http.client.HTTPConnection("engine")
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.connect(str(door))
    link.request("GET", "/metrics")
    lines = link.getresponse().read().decode().splitlines()
    link.close()
    return dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))


def serve(run, pools, folder):
    """Starts the engine on pools: (the process, how fio reaches it, its hits).

    A hit is a read for which the pool called slow, or the disk behind its cache, was not asked.
    """
    top = table("", {"data": folder, "fill": "slowest", "journal": "1MiB"})
    (folder / "tiers.toml").write_text(top + pools + table("[[volume]]", {"size": f"{run['volume_mib']}MiB"}))
    with open(folder / "engine.log", "wb") as into:
        server = subprocess.Popen([run["binary"], "up", str(folder / "tiers.toml")], stdout=into, stderr=into)
    for door in ("nbd.sock", "http.sock"):
        while not (folder / door).exists():
            if server.poll() is not None:
                raise RuntimeError(f"the engine ended with {server.returncode}")
            time.sleep(0.05)

    def hits():
        counts = metrics(folder / "http.sock")
        hit, missed = (counts.get(f'thermocline_cache_{kind}_bytes_total{{pool="slow"}}') for kind in ("hit", "missed"))
        if hit is not None:
            return int(float(hit)) // 4096, (int(float(hit)) + int(float(missed))) // 4096
        reads = int(float(counts['thermocline_request_duration_seconds_count{op="read"}']))
        return reads - int(float(counts['thermocline_pool_request_duration_seconds_count{pool="slow",op="read"}'])), reads

    return server, ["--ioengine=nbd", f"--uri=nbd+unix:///v0?socket={folder / 'nbd.sock'}"], hits


def engine_said(folder):
    log = folder / "engine.log"
    return f"the engine's log ends:\n{log.read_text(errors='replace')[-LOG_TAIL:]}" if log.exists() else ""


def write_all(run, target, folder):
    """What was never written is read as zeroes without a device."""
    tiers_load.fio([*target, "--rw=write", "--bs=1m", "--iodepth=8", f"--size={run['volume_mib']}m"], folder)


def thermocline(configuration):
    def make(run, slow):
        _, target, hits = serve(run, configuration(run, {"path": FAST}, {"path": slow}), PRIVATE)
        write_all(run, target, PRIVATE)
        if run["submit"] == "inline":
            return target, hits
        # fio's nbd engine dies when other threads submit, so the kernel is the client.
        insert(run, "nbd")
        call("nbd-client", "-unix", PRIVATE / "nbd.sock", "/dev/nbd0", "-N", "v0")
        return direct("/dev/nbd0"), hits
    return make


CANDIDATES = {
    "disk alone": disk_alone,
    "dm-cache smq, write-back, 64 KiB": dm_cache,
    "dm-writecache": dm_writecache,
    "bcache write-back, 4 KiB": bcache,
    **{name: thermocline(configuration) for name, configuration in ENGINES.items()},
}
