"""Traces that the tests read: real ones where they are, and made ones."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("THERMOCLINE_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def real_traces():
    """Paths of the real traces that are not large."""
    found = sorted((SHARED / "traces").glob("*.*"))
    small = [path for path in found if path.suffix in (".gz", ".zst") and path.stat().st_size < 2e6]
    if not small:
        print(f"SKIPPED: {SHARED}/traces is not here")
        pytest.skip("no real traces")
    return small


@pytest.fixture(scope="session")
def command():
    """The command, to compare with: the one named, or the workspace's."""
    named = os.environ.get("THERMOCLINE_COMMAND")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for path in [named, target / "release/thermocline", target / "debug/thermocline"]:
        if path and pathlib.Path(path).exists():
            return str(path)
    print("SKIPPED: the command is not built")
    pytest.skip("the command is not built")


def compiled(source, folder):
    """A library made of a source in C below crates/plugins."""
    if shutil.which("cc") is None:
        print("SKIPPED: needs a C compiler, cc")
        pytest.skip("no C compiler")
    plugins = ROOT / "crates/plugins"
    library = folder / f"{pathlib.Path(source).stem}.so"
    words = ["cc", "-O2", "-shared", "-fPIC", "-I", str(plugins / "include"), "-o", str(library)]
    subprocess.run([*words, str(plugins / source)], check=True)
    return library


@pytest.fixture(scope="session")
def plug_in(tmp_path_factory):
    """The example policy in C, compiled."""
    return f"{compiled('examples/lru.c', tmp_path_factory.mktemp('plug-in'))}:lru"


@pytest.fixture(scope="session")
def placement_in_c(tmp_path_factory):
    """The example placement in C, compiled."""
    return f"{compiled('examples/baseline.c', tmp_path_factory.mktemp('placement'))}:baseline"


@pytest.fixture(scope="session")
def lying_placements(tmp_path_factory):
    """The library of placements that fail, compiled."""
    return compiled("tests/placement_liar.c", tmp_path_factory.mktemp("liar"))
