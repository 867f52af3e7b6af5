"""Policies of one's own, as classes and in shared libraries: in tables, in curves, and at fault."""

from collections import OrderedDict

import numpy
import pytest

from thermocline import cache, trace
from thermocline.cache import ADMITTED, BYPASSED, HIT

MADE = trace.synth("web", requests=30_000, vms=1, seed=2)


class Lru:
    def __init__(self, geometry):
        self.kept, self.capacity = OrderedDict(), geometry["lines"]

    def access(self, lines):
        kept, answers = self.kept, []
        for line in lines:
            if line in kept:
                kept.move_to_end(line)
                answers.append(HIT)
            else:
                full = len(kept) == self.capacity
                answers.append(kept.popitem(last=False)[0] if full else ADMITTED)
                kept[line] = None
        return answers

    def invalidate(self, line):
        del self.kept[line]


def same(rows):
    own, built_in = rows
    left_out = {"policy", "replay_s", "memory_resident_bytes", "memory_index_bytes"}
    return {k: v for k, v in own.items() if k not in left_out} == {
        k: v for k, v in built_in.items() if k not in left_out
    }


def test_a_class_counts_as_the_built_in_policy():
    table = cache.simulate(MADE, [Lru, "lru"], "10%")
    assert table["policy"] == ["Lru", "lru"]
    assert same(table.to_dicts())


def test_a_shared_library_counts_as_the_built_in_policy(plug_in):
    for sizes in ["1%", "10%"]:
        assert same(cache.simulate(MADE, [plug_in, "lru"], sizes).to_dicts())


def test_both_have_curves(plug_in):
    curves = cache.mrc(MADE, [Lru, plug_in, "lru"], ["2%", "20%"], method="shards:1.0")
    by_policy = {}
    for row in curves.to_dicts():
        by_policy.setdefault(row["policy"], []).append(row["miss_ratio"])
    assert len({tuple(ratios) for ratios in by_policy.values()}) == 1 and len(by_policy) == 3


def test_discards_reach_a_class():
    discards = trace.synth("fileserver", requests=20_000, vms=1, seed=1)
    assert same(cache.simulate(discards, [Lru, "lru"], "10%", write="around").to_dicts())


def test_arrays_come_as_a_buffer_and_may_be_answered_as_one():
    class Nothing:
        arrays = True
        name = "nothing"

        def __init__(self, geometry):
            pass

        def access(self, lines):
            ids = numpy.frombuffer(lines, dtype=numpy.uint32)
            return numpy.full(len(ids), BYPASSED, dtype=numpy.uint32)

    [row] = cache.simulate(MADE, Nothing, "10%").to_dicts()
    assert (row["policy"], row["line_hit_ratio"], row["admitted"]) == ("nothing", 0.0, 0)


class Liar:
    def __init__(self, geometry):
        pass

    def access(self, lines):
        return self.answers(lines)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (lambda lines: [HIT] * len(lines), "policy `Liar`: .*line 0 is not resident.*a hit"),
        (lambda lines: [ADMITTED] * len(lines), "cannot be true"),
        (lambda lines: [7] * len(lines), "the eviction of line 7, which is not resident"),
        (lambda lines: [0xFFFFFFFC] * len(lines), "means nothing"),
        (lambda lines: [HIT] * (len(lines) + 1), "was given .* lines and answered"),
        (lambda lines: numpy.zeros(len(lines)), "with a buffer of .*one unsigned 32-bit number"),
        (lambda lines: numpy.zeros(len(lines) + 1, numpy.uint32), "answered with a buffer of"),
        (lambda lines: 4 * len(lines), "returned <class 'int'>, which is neither a list nor a"),
        (lambda lines: 1 << 62, "returned <class 'int'>, which is neither a list nor a buffer"),
        (lambda lines: (HIT,) * len(lines), "returned <class 'tuple'>, which is neither"),
        (lambda lines: None, "returned <class 'NoneType'>, which is neither a list nor a buffer"),
    ],
)
def test_nonsense_ends_the_run_and_names_the_policy(answers, expected):
    liar = type("Liar", (Liar,), {"answers": staticmethod(answers)})
    with pytest.raises(ValueError, match=expected):
        cache.simulate(MADE, ["lru", liar], "10%")
    with pytest.raises(ValueError, match=expected):
        cache.mrc(MADE, [liar], ["10%"], method="shards:1.0")


def test_an_exception_of_a_class_is_raised_again():
    class Broken:
        def __init__(self, geometry):
            pass

        def access(self, lines):
            raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError, match="of my own"):
        cache.simulate(MADE, Broken, "10%")

    class Unmade:
        def __init__(self, geometry):
            raise LookupError("not made")

    with pytest.raises(LookupError, match="not made"):
        cache.simulate(MADE, Unmade, "10%")


def test_a_number_that_is_none_is_refused():
    liar = type("Liar", (Liar,), {"answers": staticmethod(lambda lines: ["hit"] * len(lines))})
    with pytest.raises(TypeError):
        cache.simulate(MADE, liar, "10%")
