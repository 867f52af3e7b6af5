"""Placements of one's own, as classes and in shared libraries: in tables, and at fault."""

import itertools

import pyarrow
import pytest

from thermocline import balance, cache, trace, volume

MADE = trace.synth("fileserver", requests=6_000, vms=2, seed=2)
EPOCH = "2s"
POOLS = """
[[pool]]
profile = "nvme"
size = "10%"
[[pool]]
profile = "hdd-7200"
size = "150%"
"""


def simulate(policies, **options):
    return volume.simulate(MADE, policies, epoch=EPOCH, pools=POOLS, **options)


class Baseline:
    """What `baseline` does on two pools, in Python."""

    name = "own-baseline"

    def propose(self, epoch):
        chunks = epoch["chunks"].to_dicts()
        free, slow = epoch["pools"]["free_chunks"]
        place = [(row["volume"], row["index"]) for row in chunks]
        asked = [row["reads"] + row["writes"] for row in chunks]

        def rank(n):
            return -asked[n], chunks[n]["pool"] != 0, place[n]

        top = sorted((n for n, count in enumerate(asked) if count > 0), key=rank)
        top = top[: min(1000, epoch["pools"]["total_chunks"][0])]
        kept = set(top)
        leaving = [n for n, row in enumerate(chunks) if row["pool"] == 0 and n not in kept]
        leaving.sort(key=lambda n: (chunks[n]["last_access"], place[n]), reverse=True)
        moves = []
        for chunk in (n for n in top if chunks[n]["pool"] != 0):
            if free == 0:
                if not leaving or slow == 0:
                    break
                moves.append((leaving.pop(), 1))
                free, slow = free + 1, slow - 1
            moves.append((chunk, 0))
            free, slow = free - 1, slow + 1
        return moves


def figures(table, policy):
    left_out = {"policy", "cpu_s", "requests_per_cpu_s"}
    rows = [row for row in table.to_dicts() if row["policy"] == policy]
    return [{k: v for k, v in row.items() if k not in left_out} for row in rows]


def test_a_class_and_a_library_do_exactly_what_the_built_in_placement_does(placement_in_c):
    table = simulate([Baseline, placement_in_c, "baseline"])
    built_in = figures(table, "baseline")
    assert built_in[0]["moves_proposed"] > 20
    assert figures(table, "own-baseline") == built_in
    assert figures(table, placement_in_c) == built_in


def test_an_epoch_is_told_as_tables():
    seen = []

    class Looks:
        def propose(self, epoch):
            seen.append(epoch)
            return []

    simulate(Looks)
    first = seen[0]
    assert (first["epoch_ns"], first["chunk_bytes"]) == (2 * 10**9, 1 << 20)
    assert [epoch["now_ns"] for epoch in seen] == sorted(epoch["now_ns"] for epoch in seen)
    chunks, pools = pyarrow.table(first["chunks"]), first["pools"].to_dicts()
    assert chunks.num_rows == len(first["chunks"]) > 100
    assert [pool["random_read_latency_ns"] > 0 for pool in pools] == [True, True]
    assert pools[0]["random_read_latency_ns"] < pools[1]["random_read_latency_ns"]
    free = sum(pool["total_chunks"] - pool["free_chunks"] for pool in pools)
    assert free == first["chunks"]["empty"].count(False)
    later = seen[-1]["chunks"]
    assert later["index"][: len(chunks)] == first["chunks"]["index"]
    assert sum(later["reads"]) + sum(later["writes"]) < max(later["last_access"])


class Liar:
    def propose(self, epoch):
        return self.answers(epoch["chunks"]["pool"])


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (lambda pools: None, "`propose` returned None; return a list of moves"),
        (lambda pools: [(len(pools), 0)], "move 0 is of chunk .*, and there are .* chunks"),
        (lambda pools: [(0, 2)], "to pool 2, and there are 2 pools"),
        (lambda pools: [(0, pools[0])], "where it is"),
        (lambda pools: [(pools.index(0), 1)] * 2, "move 1 is the second one of chunk"),
        (lambda pools: [(n, 0) for n, pool in enumerate(pools) if pool], "has no room for it"),
        (lambda pools: itertools.repeat((0, 1)), "moves, and at most .* may be proposed"),
        (lambda pools: [(-1, 0)], r"move 0 of `propose` is \(-1, 0\)"),
        (lambda pools: [(0.5, 0)], "a move is a pair"),
        (lambda pools: [3], "move 0 of `propose` is 3; a move is a pair"),
    ],
)
def test_nonsense_ends_the_run_and_names_the_placement(answers, expected):
    liar = type("Liar", (Liar,), {"answers": staticmethod(answers)})
    with pytest.raises(ValueError, match=expected):
        simulate(["static", liar])


@pytest.mark.parametrize("name", ["unmade", "silent", "unwritten", "too-many", "no-pool", "overfill"])
def test_nonsense_of_a_library_ends_the_run(lying_placements, name):
    with pytest.raises(ValueError, match=f"placement_liar.so:{name}|it never can"):
        simulate(["static", f"{lying_placements}:{name}"])


def test_an_exception_of_a_class_is_raised_again():
    class Broken:
        def propose(self, epoch):
            raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError, match="of my own"):
        simulate(["static", Broken])

    class Without:
        pass

    with pytest.raises(AttributeError, match="propose"):
        simulate(Without)
    with pytest.raises(ValueError, match="neither a policy's name nor a class"):
        simulate([3])


@pytest.mark.parametrize("seed", [-1, 1.5, 2**64, "one", None])
def test_a_seed_that_is_none_is_refused(seed):
    expected = "seed: .* is no whole number from 0 to 18446744073709551615"
    with pytest.raises(ValueError, match=expected):
        simulate("static", seed=seed)
    with pytest.raises(ValueError, match=expected):
        cache.simulate(MADE, "lru", "10%", seed=seed)
    with pytest.raises(ValueError, match=expected):
        cache.mrc(MADE, seed=seed)
    with pytest.raises(ValueError, match=expected):
        balance.simulate(policies="p2c", requests="1k", seed=seed)
    if seed is not None:  # None is the preset's own.
        with pytest.raises(ValueError, match=expected):
            trace.synth("oltp", seed=seed)


def test_counts_that_are_none_are_refused():
    with pytest.raises(ValueError, match="closed: -3 is no whole number"):
        simulate("static", closed=-3)
    with pytest.raises(ValueError, match="seeds: -1 is no whole number"):
        balance.simulate(policies="p2c", requests="1k", seeds=-1)
