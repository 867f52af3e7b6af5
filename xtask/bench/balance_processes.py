"""What the measurements of the balancer share: starting programs, their processor time and memory, and ports that are free."""

import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time


def need(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        sys.exit(f"not here: {', '.join(missing)}; install the packages haproxy, nginx-light and wrk")


def free_ports(count):
    """Ports that nobody has at the moment. They lie below those that the system gives to clients, who could take them meanwhile."""
    found = []
    port = 10_000 + os.getpid() * 37 % 10_000
    while len(found) < count:
        port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                found.append(port)
            except OSError:
                pass
    return found


def many_files():
    """As many descriptors as the system allows; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wish in (65536, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wish, max(hard, wish)))
            break
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def cpu_seconds(pid):
    """Processor time of all threads that the process has, to the nanosecond."""
    return sum(int(task.joinpath("schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def resident_bytes(pid, what="VmRSS"):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", text)[1]) << 10


def machine():
    """One line about where this runs."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return (f"{os.cpu_count()} cores of {model[1] if model else os.uname().machine}, {int(memory[1]) / 2**20:.0f} GiB, "
            f"Linux {os.uname().release}; load {os.getloadavg()[0]:.1f} at the end")


class Programs:
    """Everything that was started; all of it is ended when this is left."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.kill()
        for process in self.running:
            process.wait()

    def start(self, command, name, port=None, cores=None):
        """Starts a program, on `cores` only if given, and waits until it listens."""
        if cores is not None:
            command = ["taskset", "-c", cores, *command]
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        self.running.append(process)
        if port:
            self.wait_for(process, name, port)
        return process

    def wait_for(self, process, name, port):
        for _ in range(400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"{name} does not listen: {(self.folder / f'{name}.log').read_text()[-2000:]}")

    def balancer(self, binary, name, port, backends, top="", tables="", cores=None, each=""):
        """`thermocline balance` before `backends`, with further TOML: at the top, of each backend, and behind."""
        text = f'{top}\n[[listen]]\naddress = "127.0.0.1:{port}"\n'
        text += "".join(f'[[backend]]\naddress = "127.0.0.1:{backend}"\n{each}' for backend in backends)
        text += f'{tables}\n[admin]\nsocket = "{name}.sock"\n'
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return self.start([binary, "balance", str(path)], name, port, cores)

    def status(self, binary, name):
        socket_path = str(self.folder / f"{name}.sock")
        return json.loads(subprocess.check_output([binary, "balance", "status", "--json", "--api", socket_path]))


def say(text):
    print(text, file=sys.stderr, flush=True)


def spread(values):
    return statistics.median(values), min(values), max(values)


def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
