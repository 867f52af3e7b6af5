"""Cases of `cargo xtask bench hintstor`: how each begins, what is kept of it, and the table of all.

Of every figure the median of the repeats stands there, with the least and the greatest; of comparisons, those within a repeat.
"""

import contextlib
import json
import os
import shutil
import statistics
import sys
import time

import hintstor_rig as rig

CACHE_MIB = 48 * 1024 // 100 + 32  # a hundredth of the source's memory, and what the load itself takes
DIRTY_MIB = 96  # a fifth of that, as Linux has it
EPOCH_SECONDS = 3  # a hundredth of five minutes
MIB = 2**-20


class Bench:
    """Images, pools and mounts of cases, and what was measured of them: rows with a `repeat`, a `group` and a `case`."""

    def __init__(self, args, place, memory):
        self.args, self.place, self.memory, self.rows, self.images = args, place, memory, [], {}
        self.cgroup = None

    def image(self, name, kind, mib, make, **more):
        if name not in self.images:
            self.images[name] = rig.image(self.place / f"{name.replace(' ', '-')}.img", kind, mib, make, **more)
        return self.images[name]

    def prepare(self, plan, image, order, hints, say=None):
        """New pools with the image's bytes, as a linear device of the pools in `order` has them; then as hints want them, the
        file system's and what `say(engine)` says. The bytes that hints moved."""
        folder = self.memory / "data"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with rig.Engine(self.args.binary, folder, plan, False) as engine:
            engine.copy_in(image)
            engine.lay_out(plan, order)
        if hints is None:
            return 0
        with rig.Engine(self.args.binary, folder, plan, False, hints) as engine:
            if say:
                say(engine)
            return engine.rest()

    @contextlib.contextmanager
    def mounted(self, plan, hints, options="", record=None):
        """The prepared pools slowed to devices, and the volume mounted."""
        if self.args.record:
            record = self.args.kept / f"hintstor-{self.args.what}-{len(self.rows)}.tcr"
        if record:
            record.unlink(missing_ok=True)  # An earlier run's.
        with rig.Engine(self.args.binary, self.memory / "data", plan, True, hints, record) as engine:
            with rig.Mount(engine, self.memory, DIRTY_MIB, options) as mount:
                time.sleep(EPOCH_SECONDS + 1)  # The first survey is done; without hints the same.
                yield engine, mount

    @contextlib.contextmanager
    def measured(self, engine, mount, row):
        before, fuse = engine.figures(), rig.cpu_seconds(mount.fuse.pid)
        yield
        row.update(rig.between(before, engine.figures(), mount.fuse.pid, fuse))
        row["machine_load"] = os.getloadavg()[0]

    def note(self, row):
        """Keeps what was measured, also if the rest does not come to an end."""
        self.rows.append(row)
        (self.args.kept / f"hintstor-{self.args.what}.rows.json").write_text(json.dumps(self.rows))
        shown = {key: value for key, value in row.items() if not isinstance(value, (dict, list))}
        print(f"{time.strftime('%T')} {shown}", file=sys.stderr)

    def wanted(self, title):
        return all(word in title for word in self.args.only.split(",") if word)


def spread(values, digits):
    if not values:
        return ""
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def beside_none(figure):
    """How far a figure is off that of the case without hints in the same repeat, in percent."""
    return lambda run, none: (figure(run) / figure(none) - 1) * 100 if none and figure(none) else None


def of(figure):
    """A figure that needs no comparison."""
    return lambda run, _: figure(run)


COMMON = [
    ("engine's CPU, %", of(lambda run: run["engine_cpu"] / run["seconds"] * 100), 2),
    ("of it survey's, %", of(lambda run: run["survey_cpu"] / run["seconds"] * 100), 2),
    ("load's CPU, %", of(lambda run: run["load"]["cpu_seconds"] / run["load"]["seconds"] * 100), 1),
]


def table(rows, columns):
    """`columns`: (title, figure of a run and of the same repeat's run without hints, digits)."""
    text, groups = "", {}
    columns = columns + COMMON
    for row in rows:
        groups.setdefault(row["group"], {}).setdefault(row["case"], []).append(row)
    for group, cases in groups.items():
        text += f"{group}\n\n| case | {' | '.join(title for title, *_ in columns)} |\n|---|{'---:|' * len(columns)}\n"
        without = {row["repeat"]: row for row in cases.get("none", [])}
        for case, runs in cases.items():
            cells = []
            for _, figure, digits in columns:
                values = [figure(run, without.get(run["repeat"])) for run in runs]
                cells.append(spread([value for value in values if value is not None], digits))
            text += f"| {case} | {' | '.join(cells)} |\n"
        text += "\n"
    return text
