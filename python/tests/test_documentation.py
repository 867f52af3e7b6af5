"""Examples in docstrings run, types hold, and notebooks run from the first cell to the last."""

import doctest
import importlib
import pathlib
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

import thermocline

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ["", "._sweep", ".balance", ".cache", ".dedup", ".experiments", ".trace", ".volume"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module("thermocline" + name)
    failed, attempted = doctest.testmod(module)
    assert failed == 0
    assert attempted > 0 or name == ".experiments"


def test_types_hold():
    package = pathlib.Path(thermocline.__file__).parent
    assert (package / "py.typed").exists()
    words = [sys.executable, "-m", "mypy", "--strict", str(package), str(HERE / "typing_examples.py")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_types_are_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from thermocline import cache\ncache.simulate('a', objects='yes')\n")
    done = subprocess.run([sys.executable, "-m", "mypy", str(wrong)], capture_output=True, text=True)
    assert done.returncode == 1 and 'incompatible type "str"; expected "bool"' in done.stdout


@pytest.mark.parametrize("path", sorted(HERE.parent.glob("notebooks/*.ipynb")), ids=lambda p: p.stem)
def test_notebooks(path):
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("text", "")
            if "SKIPPED" in text:
                print(text)
