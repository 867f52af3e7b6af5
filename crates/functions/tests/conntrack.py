"""The kernel's NAT behind standard input: a network namespace with nftables' masquerade between two
TUN devices. It needs root, `ip` and `nft`, and nothing but Python's own library.

Each request is a side (0 inside, 1 outside), a length of two bytes and a packet. The answer is a
side and a packet in the same form, or side 2 without a packet: nothing came out."""

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys

NAMESPACE = f"thermocline-nat-{os.getpid()}"
RULES = """
table ip t {
  chain post { type nat hook postrouting priority 100; oifname "outside" masquerade; }
  chain in { type filter hook input priority 0; policy drop; }
}
"""


def tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR)
    # IFF_TUN without packet information, by TUNSETIFF.
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name, 0x1001))
    return device


def run(*command, **more):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **more)


def setting(path, value):
    with open(f"/proc/sys/net/{path}", "w") as file:
        file.write(value)


def prepare():
    run("ip", "netns", "add", NAMESPACE)
    with open(f"/var/run/netns/{NAMESPACE}") as space:
        enter(space.fileno())
    devices = [tun(b"inside"), tun(b"outside")]
    setting("ipv6/conf/all/disable_ipv6", "1")
    setting("ipv4/ip_forward", "1")
    for name, address in (("inside", "10.0.0.1/24"), ("outside", "203.0.113.1/24")):
        run("ip", "address", "add", address, "dev", name)
        run("ip", "link", "set", name, "up")
        setting(f"ipv4/conf/{name}/rp_filter", "0")
    run("ip", "route", "add", "default", "dev", "outside")
    run("nft", "-f", "-", input=RULES.encode())
    return devices


def enter(descriptor):
    """Moves this process into a network namespace (CLONE_NEWNET); `os.setns` is younger than 3.11."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def outcome(devices):
    """The next IPv4 packet that came out; the kernel handles a packet before `write` returns, so a
    short time is enough to know that none comes."""
    while True:
        ready, _, _ = select.select(devices, [], [], 0.05)
        if not ready:
            return b"\2\0\0"
        packet = os.read(ready[0], 65535)
        if packet[0] >> 4 == 4:
            return bytes([devices.index(ready[0])]) + struct.pack(">H", len(packet)) + packet


def main():
    devices = prepare()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(b"R")
    answers.flush()
    while header := requests.read(3):
        packet = requests.read(struct.unpack(">H", header[1:])[0])
        os.write(devices[header[0]], packet)
        answers.write(outcome(devices))
        answers.flush()


try:
    main()
finally:
    subprocess.run(["ip", "netns", "delete", NAMESPACE], stderr=subprocess.DEVNULL)
