"""Measures of how the code is built, at one revision or several: `python3 xtask/bench/house.py [REVISION …]`, `HEAD` by itself.

Everything is counted from the text of `crates/*/src` without tests, by simple rules that are written beside each measure; docs/results/house.md
says what they came to. Needs git and Python 3.8.
"""

import io
import re
import subprocess
import sys
import tarfile

ASSERTING = ["volume", "blockcache", "balancer"]
QUESTIONS = {"What", "Whether", "Who", "Whose", "How", "Where", "Which", "When", "Why", "Whom"}


def sources(revision):
    """Texts of the crates' code by path, tests aside."""
    packed = subprocess.run(["git", "archive", "--format=tar", revision, "crates"], check=True, capture_output=True).stdout
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            parts = member.name.split("/")
            is_test = any(part.split(".")[0] == "tests" for part in parts)
            if member.name.endswith(".rs") and len(parts) > 3 and parts[2] == "src" and not is_test:
                texts[member.name] = tar.extractfile(member).read().decode()
    return texts


def code(text):
    """The text without comments and without the contents of strings."""
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', re.sub(r"//[^\n]*", "", text), flags=re.S)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def of(texts, crates):
    return {path: text for path, text in texts.items() if path.split("/")[1] in crates}


def spread(texts, crate, name):
    """Files of a crate with an `impl` block of a type itself."""
    own = re.compile(r"^impl(?:<[^>]*>)? " + name + r"\b[^{;]*\{", re.M)
    return sum(any(" for " not in head for head in own.findall(code(text))) for text in of(texts, [crate]).values())


def circles(revision):
    """By crate, the largest circle of files that call each other, as `cargo xtask tidy` counts it (xtask/src/tidy/machines.rs) and its ratchet
    holds it; crates that it does not name have none above its bound. Nothing before there was a ratchet for it."""
    shown = subprocess.run(["git", "show", f"{revision}:xtask/ratchet.txt"], capture_output=True, text=True)
    return dict(reversed(pair) for pair in re.findall(r"^(\d+) (\w+)::circle$", shown.stdout, re.M))


def assertions(texts, crates):
    """`assert!`, `debug_assert!` and their kin over functions."""
    body = "\n".join(code(text) for text in of(texts, crates).values())
    return len(re.findall(r"\b(?:debug_)?assert(?:_eq|_ne)?!", body)) / max(len(re.findall(r"\bfn \w+", body)), 1)


def questions(texts):
    """Documentation comments whose first word asks, or that only send their reader to the module."""
    count = 0
    for text in texts.values():
        within = False
        for line in text.splitlines():
            comment = re.match(r"\s*///\s*(.*)", line)
            if comment and not within:
                first = re.match(r"\w*", comment.group(1)).group(0)
                count += first in QUESTIONS or comment.group(1).strip() == "See the module."
            within = comment is not None
    return count


def names(texts):
    """Distinct names of types, lines of code with anything on them, and all lines, comments included."""
    bodies = [code(text) for text in texts.values()]
    types = {name for body in bodies for name in re.findall(r"\b(?:struct|enum|trait|union)\s+(\w+)", body)}
    lines = sum(1 for body in bodies for line in body.splitlines() if line.strip())
    return len(types), lines, sum(len(text.splitlines()) for text in texts.values())


def main():
    for revision in sys.argv[1:] or ["HEAD"]:
        texts = sources(revision)
        short = subprocess.run(["git", "rev-parse", "--short", revision], check=True, capture_output=True, text=True).stdout.strip()
        types, lines, written = names(texts)
        print(f"{short}: {lines} lines of code, {written} with comments; {types} names of types, {1000 * types / written:.1f} for each 1,000 of these")
        print(f"  files with `impl Group`: {spread(texts, 'volume', 'Group')}; `impl BlockCache`: {spread(texts, 'blockcache', 'BlockCache')}")
        held = ", ".join(f"{crate} {size} of {len(of(texts, [crate]))}" for crate, size in circles(revision).items())
        print(f"  longest circle of files, where the ratchet has one: {held or 'not counted'}")
        print("  assertions a function: " + ", ".join(f"{crate} {assertions(texts, [crate]):.2f}" for crate in ASSERTING))
        print(f"  documentation comments that ask: {questions(texts)}")


main()
