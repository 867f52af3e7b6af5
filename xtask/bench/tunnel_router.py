"""A router that is not ours: a guest of user-mode Linux between two TAP devices, with netem on both ways.

`Router` gives what `tunnel.py`'s link over TUN gives: rate, delay each way, loss. The guest's kernel is that of Debian's package
user-mode-linux, whose modules have netem where the host's kernel has none. Its root is a small folder made here, mounted read-only.
It answers ARP for both sides, so addresses stay those of the link over TUN.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import time

MODULES = pathlib.Path("/usr/lib/uml/modules")
# Address of the guest on both sides, which only its ARP needs.
ADDRESS = "192.0.2.1"
GUEST_MIB = 256
# As the example `link` of thermocline-ports-os: what would wait longer is dropped.
QUEUE_MS = 50
# A full packet of Ethernet, in bits.
PACKET_BITS = 1514 * 8
START_SECONDS_MAX = 60

INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox mount -t proc proc /proc
say() {{ echo "$1" > /dev/console; }}
{{
set -e
busybox insmod /lib/sch_netem.ko
busybox ip link set lo up
for at in 0 1; do
    busybox ip addr add {address}/32 dev vec$at
    busybox ip link set vec$at up
    echo 1 > /proc/sys/net/ipv4/conf/vec$at/proxy_arp
    echo 0 > /proc/sys/net/ipv4/neigh/vec$at/proxy_delay
    /bin/tc qdisc add dev vec$at root netem limit {limit} delay {ms}ms rate {mbit}mbit {loss}
done
busybox ip route add {near}/32 dev vec0
busybox ip route add {far}/32 dev vec1
echo 1 > /proc/sys/net/ipv4/ip_forward
echo router is up
}} > /dev/console 2>&1
while :; do busybox sleep 1000; done
"""


def missing():
    """The packages that the router needs and this machine has not."""
    programs = {"linux.uml": "user-mode-linux", "busybox": "busybox-static", "tc": "iproute2"}
    return [package for program, package in programs.items() if not shutil.which(program)]


def netem():
    """The module of the newest kernel that is installed for such guests."""
    found = sorted(MODULES.glob("*/kernel/net/sched/sch_netem.ko"))
    if not found:
        raise SystemExit(f"{MODULES} has no module sch_netem; install the package user-mode-linux")
    return found[-1]


def root(folder, init):
    """A root with busybox, tc, what tc is linked with, and netem."""
    for name in ("bin", "dev", "lib", "proc", "sys"):
        (folder / name).mkdir(parents=True)
    tc = pathlib.Path(shutil.which("tc"))
    for program in (shutil.which("busybox"), tc):
        shutil.copy(program, folder / "bin")
    (folder / "bin" / "sh").symlink_to("busybox")
    for library in re.findall(r"/\S+", subprocess.check_output(["ldd", tc], text=True)):
        place = folder / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    shutil.copy(netem(), folder / "lib")
    (folder / "init").write_text(init)
    (folder / "init").chmod(0o755)


class Router:
    """The guest. Its TAP devices are in this namespace when it is up; move them where they belong."""

    def __init__(self, devices, addresses, mbit, ms, loss_per_million):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tcr-"))
        # netem's limit counts what waits and what is under way, in packets.
        limit = int((QUEUE_MS + ms) * mbit * 1000 / PACKET_BITS)
        loss = f"loss {loss_per_million / 10_000}%" if loss_per_million else ""
        root(self.folder / "root", INIT.format(address=ADDRESS, limit=limit, ms=ms, mbit=mbit, loss=loss, near=addresses[0], far=addresses[1]))
        words = [shutil.which("linux.uml"), f"mem={GUEST_MIB}M", "root=/dev/root", "rootfstype=hostfs", f"rootflags={self.folder / 'root'}", "ro",
                 "quiet", "con=null", "con0=null,fd:1", "ssl=null", f"uml_dir={self.folder}", "init=/init"]
        words += [f"vec{at}:transport=tap,ifname={name},depth=64" for at, name in enumerate(devices)]
        self.console = self.folder / "console"
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True)
        self.wait()

    def wait(self):
        until = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < until and self.process.poll() is None:
            if "router is up" in self.console.read_text(errors="replace"):
                return
            time.sleep(0.05)
        said = self.console.read_text(errors="replace")
        self.end()
        raise SystemExit(f"the guest does not become a router; its console:\n{said[-2000:]}")

    def end(self):
        subprocess.run(["pkill", "-KILL", "-s", str(self.process.pid)], check=False)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
