"""Parts that the benches with network namespaces share: commands that must succeed, and the way into a namespace."""

import ctypes
import subprocess

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


def inside(name):
    """Brings the calling thread into a namespace; its sockets stay there."""
    with open(f"/run/netns/{name}") as file:
        if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:  # os.setns came with Python 3.12
            raise OSError(ctypes.get_errno(), f"setns {name}")
