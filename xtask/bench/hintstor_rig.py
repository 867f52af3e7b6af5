"""What `cargo xtask bench hintstor` runs on: an engine with pools in memory, and a volume of it that is mounted.

- `Engine`: pools are files on tmpfs, slowed to devices where they are told to be, or as fast as memory while a case is prepared.
- `Mount`: nbdfuse makes the volume a file, a loop device past the page cache makes that a disk, and the file system is mounted, with
  nothing of it in memory. nbdfuse has ten threads: no more requests are under way.
- `image`: a file system with its files, made without an engine, so that every case begins with the same bytes.

Whatever was started or attached is ended when it is left, also after an error.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

LOAD = pathlib.Path(__file__).with_name("hintstor_load.py")
LABEL_MIB = 9  # journal and labels of a pool
CGROUPS = pathlib.Path("/sys/fs/cgroup/memory")
MAKE = {"ext4": "mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0{hash}", "btrfs": "mkfs.btrfs -q -K"}
MOVES_REST_SECONDS = 2.5  # without a new move a case is prepared; epochs and surveys are 1 s then


def shell(words, **more):
    ran = subprocess.run(["sh", "-ec", words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **more)
    if ran.returncode:
        raise RuntimeError(f"{words}: {ran.stdout.strip()}")
    return ran.stdout.strip()


def cpu_seconds(pid):
    """Processor time of a process with its threads, to the nanosecond."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def thread_seconds(pid, name):
    """Processor time of the threads of that name."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


@contextlib.contextmanager
def bounded_cache(mib):
    """A control group for processes whose page cache shall be no larger than that."""
    if not (CGROUPS / "memory.limit_in_bytes").exists():
        sys.exit("needs the memory controller of cgroups, version 1, on /sys/fs/cgroup/memory")
    group = CGROUPS / f"hintstor-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(mib << 20))
        yield group
    finally:
        with contextlib.suppress(OSError):
            (group / "memory.force_empty").write_text("0")
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def configuration(folder, plan, emulated, hints):
    """`plan`: pools (name, profile, MiB of chunks, reserve in MiB), volume and chunk in MiB, policy, epoch."""
    lines = [f'data = "{folder}"', 'tactics = ["slowest-first"]', f'chunk-size = "{plan.get("chunk", 1)}MiB"']
    for name, profile, mib, reserve in plan["pools"]:
        lines += ["[[pool]]", f'name = "{name}"', f'size = "{mib + max(LABEL_MIB, LABEL_MIB - 1 + plan.get("chunk", 1))}MiB"',
                  f'profile = "{profile}"']
        lines += [f'emulate = "{profile}"'] if emulated else []
        lines += [f'reserve = "{reserve}MiB"'] if reserve else []
    lines += ["[[volume]]", f'size = "{plan["volume"]}MiB"', "[policy]"]
    name, *settings = plan["policy"].split(":") if emulated else ["static"]
    lines += [f'name = "{name}"', f'epoch = "{plan["epoch"] if emulated else "1s"}"']
    if settings:
        lines += ["[policy.settings]", *(f'{key} = "{value}"' for key, value in (pair.split("=") for pair in settings))]
    if not emulated:
        lines += ["[copying]", 'rate = "none"', 'piece = "1MiB"', "yield-above = 4096"]
    lines += ["[hints]"]
    if hints is not None and hints.get("survey", True):
        lines += [f'survey = "{plan["epoch"] if emulated else "1s"}"']
    if hints and hints.get("classes"):
        (folder.parent / "classes.csv").write_text(hints["classes"])
        lines += ['classes = "classes.csv"']
    path = folder.parent / "engine.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Engine:
    """A running engine; ends as it should when left."""

    def __init__(self, binary, folder, plan, emulated, hints=None, record=None):
        self.binary, self.folder = binary, folder
        arguments = [binary, "up", str(configuration(folder, plan, emulated, hints)), "--log", "none"]
        arguments += ["--record", str(record)] if record else []
        self.said = open(folder.parent / "engine.stderr", "w+")
        # In a session of its own: what ends this program must not end it before its volume is unmounted.
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=self.said, start_new_session=True)
        self.uri = f"nbd+unix:///v0?socket={folder / 'nbd.sock'}"

    def __enter__(self):
        while True:
            if self.process.poll() is not None:
                self.said.seek(0)
                raise RuntimeError(f"the engine ended: {self.said.read()}")
            with contextlib.suppress(RuntimeError):
                if self.ask("status")["service"] == "ready":
                    return self
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()

    def ask(self, *words):
        ran = subprocess.run([self.binary, *words, "--data", str(self.folder), "--json"], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(f"{' '.join(words)}: {ran.stderr.strip()}")
        return json.loads(ran.stdout)

    def copy_in(self, image):
        shell(f"nbdcopy --flush --destination-is-zero {image} '{self.uri}'")

    def lay_out(self, plan, order):
        """Chunks where a linear device of these pools, in this order, has them: by their address."""
        sizes = {name: mib for name, _, mib, _ in plan["pools"]}
        starts, at = [], 0
        for name in order:
            starts.append((name, at, min(sizes[name], plan["volume"] - at)))
            at += sizes[name]
        for _ in range(3):  # Later rounds have room for what earlier ones left out.
            left = 0
            for name, start, length in reversed(starts):
                if length > 0:
                    left += self.migrate(name, start, length)
            if not left:
                return
        raise RuntimeError(f"{left} chunks are not where a linear device has them")

    def migrate(self, pool, start_mib, length_mib):
        """How many chunks of the range did not get there."""
        words = [self.binary, "migrate", "v0", "--to", pool, "--offset", f"{start_mib}MiB", "--length", f"{length_mib}MiB", "--wait"]
        ran = subprocess.run([*words, "--data", str(self.folder), "--json"], capture_output=True, text=True)
        if not ran.stdout:
            raise RuntimeError(f"migrate: {ran.stderr.strip()}")
        job = json.loads(ran.stdout)
        there = [count for why, count in job["skipped"].items() if "already" in why or "holds nothing" in why]
        if job["failed"]:
            print(f"migrate to {pool} at {start_mib} MiB: {job}", file=sys.stderr)
        return job["chunks"] - job["done"] - sum(there)

    def rest(self, most_seconds=60):
        """Waits until hints move nothing any more; returns the bytes that they have moved."""
        end, quiet, before = time.monotonic() + most_seconds, time.monotonic(), None
        while time.monotonic() < end:
            status = self.ask("status")
            moved = sum(pool["counters"]["moved_in_bytes"] for pool in status["pools"])
            now = (moved, self.ask("hint", "list")["ranges"])
            if now != before or status["operations_pending"]:
                quiet, before = time.monotonic(), now
            if time.monotonic() - quiet > MOVES_REST_SECONDS:
                break
            time.sleep(0.2)
        return before[0]

    def figures(self):
        """Counters: what the engine has done so far."""
        with subprocess.Popen(["curl", "-sf", "--unix-socket", str(self.folder / "http.sock"), "http://engine/metrics"],
                              stdout=subprocess.PIPE, text=True) as asked:
            text = asked.stdout.read()
        found = {}
        for name, labels, value in re.findall(r"^thermocline_(\w+)\{([^}]*)\} (\S+)$", text, re.M):
            found[f"{name}{{{labels}}}"] = float(value)
        hints = self.ask("hint", "list")
        return {"at": time.monotonic(), "cpu": cpu_seconds(self.process.pid),
                "survey": thread_seconds(self.process.pid, "survey"), "metrics": found, "hints": hints["done"],
                "sources": hints["sources"]}


class Mount:
    """A volume as a mounted file system."""

    def __init__(self, engine, place, dirty_mib=None, options=""):
        self.engine, self.dirty_mib, self.options = engine, dirty_mib, f"nodiscard{options}"
        self.fuse_dir, self.tree, self.device = place / "fuse", place / "tree", None

    def __enter__(self):
        for folder in (self.fuse_dir, self.tree):
            folder.mkdir(exist_ok=True)
        self.fuse = subprocess.Popen(["nbdfuse", str(self.fuse_dir), self.engine.uri], stderr=subprocess.DEVNULL,
                                     start_new_session=True)
        try:
            for _ in range(400):
                if (self.fuse_dir / "nbd").exists():
                    break
                time.sleep(0.025)
            self.device = shell(f"losetup --direct-io=on --find --show {self.fuse_dir / 'nbd'}")
            if self.dirty_mib:
                bdi = pathlib.Path("/sys/block") / pathlib.Path(self.device).name / "bdi"
                (bdi / "max_bytes").write_text(str(self.dirty_mib << 20))
                (bdi / "strict_limit").write_text("1")
            shell(f"mount -o {self.options} {self.device} {self.tree}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for words in (f"! mountpoint -q {self.tree} || umount {self.tree} || umount -l {self.tree}",
                      f"losetup -d {self.device}" if self.device else "true",
                      f"umount {self.fuse_dir} || umount -l {self.fuse_dir}"):
            try:
                shell(words)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"left behind: {error}", file=sys.stderr)
        try:
            self.fuse.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.fuse.kill()
            self.fuse.wait()


def image(path, kind, mib, make, hash_seed=None, options=""):
    """A file system of that size in a file, filled by `make(folder)`."""
    tree = path.parent / "made"
    tree.mkdir(exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(mib << 20)
    program = MAKE[kind].format(hash=f",hash_seed={hash_seed}" if hash_seed else "") if kind == "ext4" else MAKE[kind]
    shell(f"{program} {path} && mount -o loop,nodiscard{options} {path} {tree}")
    try:
        make(tree)
    finally:
        shell(f"umount {tree}")
    return path


def load(folder, plan, words=()):
    """Starts a load, under a command if `words` bring one."""
    return subprocess.Popen([*words, sys.executable, str(LOAD), str(folder), json.dumps(plan)], stdout=subprocess.PIPE, text=True)


def ended(process):
    out = process.communicate()[0]
    if process.returncode:
        raise RuntimeError("a load failed; it says why above")
    return json.loads(out)


def between(before, after, fuse_pid, fuse_cpu):
    """What happened between two takes of the engine's figures."""
    gone = {key: value - before["metrics"].get(key, 0) for key, value in after["metrics"].items()}

    def total(name, *labels):
        return sum(value for key, value in gone.items() if key.startswith(name + "{") and all(label in key for label in labels))

    seconds = after["at"] - before["at"]
    found = {"seconds": seconds, "engine_cpu": after["cpu"] - before["cpu"], "survey_cpu": after["survey"] - before["survey"],
             "nbdfuse_cpu": cpu_seconds(fuse_pid) - fuse_cpu,
             "moved_bytes": total("pool_moved_in_bytes_total")}
    counts = {op: total("request_duration_seconds_count", f'op="{op}"') for op in ("read", "write", "flush")}
    sums = {op: total("request_duration_seconds_sum", f'op="{op}"') for op in counts}
    for op, count in counts.items():
        found[f"{op}s"], found[f"{op}_mean_s"] = count, sums[op] / count if count else 0.0
    data = counts["read"] + counts["write"]
    found["mean_s"] = (sums["read"] + sums["write"]) / data if data else 0.0
    found["iops"] = data / seconds
    for pool in sorted(set(re.findall(r'pool_used_bytes\{pool="(\w+)"', " ".join(gone)))):
        label = f'pool="{pool}"'
        requests = total("pool_request_duration_seconds_count", label)
        found[pool] = {"requests": requests, "mean_s": total("pool_request_duration_seconds_sum", label) / requests if requests else 0.0,
                       "read_bytes": total("pool_read_bytes_total", label), "written_bytes": total("pool_written_bytes_total", label),
                       "moved_in_bytes": total("pool_moved_in_bytes_total", label),
                       "used_bytes_before": before["metrics"][f"pool_used_bytes{{{label}}}"]}
    found["hints"] = {key: value - before["hints"][key] for key, value in after["hints"].items()}
    found["hints"]["claimed_chunks"] = after["hints"]["claimed_chunks"]  # A gauge, not a counter.
    found["sources"] = after["sources"]
    return found
