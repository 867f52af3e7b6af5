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


LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|\b[bc]?r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\(?:u\{\w+\}|x\w\w|.)|[^\\\'])\'', re.S
)
CHECK = re.compile(r"\b(?:(?:debug_)?assert(?:_eq|_ne)?!|(?:check_invariants|assert_\w*)\()")
CLOSURE = re.compile(r"(?:dyn |impl )Fn(?:Mut|Once)?\b|fmt::Formatter|Reader")


def matching(body, opening):
    """Place of the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(body)):
        depth += (body[at] in "([{") - (body[at] in ")]}")
        if depth == 0:
            return at
    return None


def parameters_at(body, start):
    """Place of the bracket before the first parameter: generics may have brackets of their own."""
    depth = 0
    for at in range(start, len(body)):
        depth += (body[at] == "<") - (body[at] == ">" and body[at - 1] != "-")
        if body[at] == "(" and depth == 0:
            return at
    return None


def changes_state(parameters):
    """True if one of them is `&mut` of something that is no closure, formatter or cursor of a decoder."""
    depth = 0
    for at, letter in enumerate(parameters):
        depth += (letter in "([") - (letter in ")]")
        taken = re.match(r"&(?:'\w+ )?mut (.*)", parameters[at:], re.S) if letter == "&" and depth == 0 else None
        if taken and not CLOSURE.match(taken.group(1)):
            return True
    return False


def checked(texts, crates):
    """Functions that take `&mut` and have more than three lines of code, those of them without a check, and the checks in all of them:
    the rule of xtask/src/tidy/assertions.rs."""
    functions, unchecked, checks = 0, 0, 0
    for text in of(texts, crates).values():
        body = LITERALS.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)
        for found in re.finditer(r"\bfn\s+\w+", body):
            opening = parameters_at(body, found.end())
            closing = matching(body, opening)
            begin = re.compile(r"(?:\[[^\]]*\]|[^{;\[])*").match(body, closing).end()
            if body[begin] == ";" or not changes_state(body[opening + 1 : closing]):
                continue
            inner = body[begin + 1 : matching(body, begin)]
            if sum(1 for line in inner.splitlines() if line.strip()) > 3:
                count = len(CHECK.findall(inner))
                functions, unchecked, checks = functions + 1, unchecked + (count == 0), checks + count
    return functions, unchecked, checks


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
        for crate in ASSERTING:
            functions, unchecked, checks = checked(texts, [crate])
            each = f"{checks / max(functions, 1):.2f} assertions each, {unchecked} with none"
            print(f"  {crate}: {functions} functions change state, {each}")
        print(f"  documentation comments that ask: {questions(texts)}")


main()
