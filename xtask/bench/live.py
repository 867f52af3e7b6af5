"""A running `thermocline up` with a volume `v0`, for the scripts that measure one: it is started, asked with fio, and stopped as it should be."""

import json
import signal
import subprocess
import sys
import time


class Live:
    """An engine whose data folder is `folder`; `arguments` are those of `thermocline up`. It ends when left."""

    def __init__(self, binary, folder, arguments):
        self.binary, self.folder = binary, folder
        self.process = subprocess.Popen([binary, "up", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        while not (self.folder / "http.sock").exists():
            if self.process.poll() is not None:
                sys.exit(f"the engine ended: {self.process.stderr.read()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)

    def fio(self, *arguments):
        uri = f"nbd+unix:///v0?socket={self.folder / 'nbd.sock'}"
        command = ["fio", "--name=load", "--ioengine=nbd", f"--uri={uri}", *arguments]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder.parent)
        if ran.returncode != 0:
            sys.exit(f"fio failed:\n{ran.stdout[-2000:]}")
        return ran.stdout

    def told(self, *words):
        """What a command of the engine prints as JSON."""
        return json.loads(subprocess.check_output([self.binary, *words, "--data", str(self.folder), "--json"]))

    def moved_bytes(self):
        return sum(pool["counters"]["moved_in_bytes"] for pool in self.told("status")["pools"])
