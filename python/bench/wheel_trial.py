"""A run of an installed package that needs nothing beside it: `cargo xtask python wheel` runs it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import thermocline
from thermocline import cache, trace, volume
from thermocline.cache import BYPASSED

HERE = pathlib.Path(__file__).resolve()
PLUGINS = HERE.parents[2] / "crates/plugins"


class Nothing:
    def __init__(self, geometry):
        pass

    def access(self, lines):
        return [BYPASSED] * len(lines)


class Stays:
    def propose(self, epoch):
        assert len(epoch["chunks"]) > 0 and len(epoch["pools"]) == 2
        return []


def library(folder, source):
    made = folder / f"{pathlib.Path(source).stem}.so"
    words = ["cc", "-O2", "-shared", "-fPIC", "-I", PLUGINS / "include", "-o", made, PLUGINS / source]
    subprocess.run(words, check=True)
    return made


def main():
    package = pathlib.Path(thermocline.__file__).resolve()
    assert pathlib.Path(sys.prefix).resolve() in package.parents, f"{package} is not the wheel's"
    made = trace.synth("fileserver", requests=5_000, vms=1, seed=1)
    assert trace.stat(made)["workload"]["requests"] == 5_000
    lru, nothing = cache.simulate(made, ["lru", Nothing], "10%").to_dicts()
    assert 0 < lru["line_misses"] < nothing["line_misses"]
    means = volume.simulate(made, ["static", Stays], epoch="10s")["all_mean_s"]
    assert len(means) == 4 and means[0] == means[2] > 0
    if shutil.which("cc") is None:
        print("SKIPPED: shared libraries were not tried: needs a C compiler, cc")
    else:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            own = f"{library(folder, 'examples/lru.c')}:lru"
            misses = cache.simulate(made, [own, "lru"], "10%")["line_misses"]
            assert misses[0] == misses[1]
            own = f"{library(folder, 'examples/baseline.c')}:baseline"
            means = volume.simulate(made, [own, "baseline"], epoch="10s")["all_mean_s"]
            assert means[0] == means[2]
    print("the installed package runs:", package.parent)


main()
