"""Protocol tests of the chunker: what streams of beats may do, held to the Rust reference."""

import os
import random
import subprocess
import tempfile

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

WIDTH = int(os.environ["WIDTH"])
METHOD = os.environ["METHOD"]


def expected(chunking, how, data):
    """Settings and cuts, from the reference; nothing is computed here."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        line = f"{chunking} {how} {file.name}\n"
        out = subprocess.run([os.environ["EXPECTED"]], input=line, text=True, capture_output=True, check=True)
    settings, positions = out.stdout.split("\n")[:2]
    settings = dict(pair.split("=") for pair in settings.split())
    settings.pop("engine")
    return {key: int(value) for key, value in settings.items()}, [int(p) for p in positions.split()]


def some_bytes(rng, length):
    out = bytearray()
    while len(out) < length:
        run = rng.randrange(1, 300)
        kind = rng.randrange(3)
        out += bytes(run) if kind == 0 else bytes(rng.choices([0, 1], k=run)) if kind == 1 else rng.randbytes(run)
    return bytes(out[:length])


class Bench:
    """A chunker with a driver and a taker that pause at random."""

    def __init__(self, dut, seed, pause=0.3):
        self.dut, self.rng, self.pause = dut, random.Random(seed), pause
        self.cuts = {flow: [] for flow in range(16)}
        self.ends = {}
        cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
        cocotb.start_soon(self.take())

    async def reset(self):
        dut = self.dut
        await FallingEdge(dut.clk)
        for name in ["set_valid", "s_valid", "m_ready", "set_early", "set_length"]:
            getattr(dut, name).value = 0
        dut.rst.value = 1
        for _ in range(3):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        self.cuts = {flow: [] for flow in range(16)}
        self.ends = {}

    async def take(self):
        dut = self.dut
        while True:
            # Outputs are registers: what stands here is what the next edge moves.
            await FallingEdge(dut.clk)
            ready = self.rng.random() >= self.pause
            dut.m_ready.value = ready
            if ready and dut.rst.value == 0 and dut.m_valid.value == 1:
                flow, position = int(dut.m_id.value), int(dut.m_position.value)
                if dut.m_last.value == 1:
                    assert flow not in self.ends, "a packet ended twice"
                    self.ends[flow] = (position, int(dut.m_bad.value), int(dut.m_length.value))
                else:
                    self.cuts[flow].append(position)

    async def set(self, flow, settings):
        dut = self.dut
        dut.set_flow.value, dut.set_known.value = flow, 0
        for key, value in settings.items():
            getattr(dut, "set_" + key).value = value
        dut.set_valid.value = 1
        await FallingEdge(dut.clk)
        dut.set_valid.value = 0
        self.cuts[flow] = []
        self.ends.pop(flow, None)

    async def beat(self, flow, data, last, keep=None):
        dut = self.dut
        while self.rng.random() < self.pause:
            await FallingEdge(dut.clk)
        dut.s_id.value, dut.s_last.value, dut.s_lead.value = flow, last, 0
        dut.s_data.value = int.from_bytes(data, "little")
        dut.s_keep.value = (1 << len(data)) - 1 if keep is None else keep
        dut.s_valid.value = 1
        while True:
            # The wires at the edge decide, and nothing changes them between here and there.
            ready = dut.s_ready.value == 1
            await FallingEdge(dut.clk)
            if ready:
                break
        dut.s_valid.value = 0

    async def until(self, flows):
        for _ in range(400000):
            if all(flow in self.ends for flow in flows):
                return
            await FallingEdge(self.dut.clk)
        assert False, f"flows {[f for f in flows if f not in self.ends]} never ended"


def beats_of(data):
    beats = [data[at:at + WIDTH] for at in range(0, len(data), WIDTH)] or [b""]
    return [(beat, at == len(beats) - 1) for at, beat in enumerate(beats)]


async def interleaved(bench, rng, packets):
    """Feeds packets beat by beat, flows in random order, and compares every one."""
    want, queues = {}, {}
    for flow, (chunking, how, data) in packets.items():
        settings, want[flow] = expected(chunking, how, data)
        await bench.set(flow, settings)
        queues[flow] = beats_of(data)
    while queues:
        flow = rng.choice(list(queues))
        for _ in range(rng.choice([1, 1, 2, 5])):
            if flow in queues:
                beat, last = queues[flow].pop(0)
                await bench.beat(flow, beat, last)
                if last:
                    queues.pop(flow)
    await bench.until(packets)
    for flow, (chunking, how, data) in packets.items():
        assert bench.cuts[flow] == want[flow], f"flow {flow}: {chunking} {how} of {len(data)} bytes"
        assert bench.ends[flow][:2] == (len(data), 0)
        if how != "candidates":
            assert bench.ends[flow][2] == len(data) - (want[flow] or [0])[-1]


def any_packet(rng):
    size = rng.choice([64, 128, 256, 1024])
    how = rng.choice(["cuts", "cuts", "at-min", "candidates"])
    length = rng.choice([0, 1, WIDTH - 1, WIDTH, WIDTH + 1, 31, 32, 33, rng.randrange(3000), rng.randrange(3000)])
    return f"{METHOD}:{size}B", how, some_bytes(rng, length)


@cocotb.test()
async def flows_interleave_and_limits_change(dut):
    """Sixteen flows beat by beat, three rounds, each with other lengths, limits and rules."""
    rng = random.Random(WIDTH)
    bench = Bench(dut, 1)
    await bench.reset()
    for _ in range(3):
        await interleaved(bench, rng, {flow: any_packet(rng) for flow in range(16)})


@cocotb.test()
async def nothing_is_lost_when_nobody_takes(dut):
    """Candidates on nearly every byte, and a taker that is away nine times in ten."""
    rng = random.Random(3)
    bench = Bench(dut, 2, pause=0)
    await bench.reset()
    bench.pause = 0.9
    data = bytes(500) + some_bytes(rng, 700)
    await interleaved(bench, rng, {3: (f"{METHOD}:64B", "candidates", data), 9: (f"{METHOD}:64B", "cuts", data)})


@cocotb.test()
async def a_reset_in_mid_stream_leaves_nothing(dut):
    """Flows are stopped anywhere; what comes after is as if they had never been."""
    rng = random.Random(4)
    bench = Bench(dut, 3)
    await bench.reset()
    for _ in range(5):
        for flow in (0, 5):
            settings, _ = expected(f"{METHOD}:64B", "cuts", b"")
            await bench.set(flow, settings)
        for beat, _ in beats_of(some_bytes(rng, rng.randrange(WIDTH, 100 + 20 * WIDTH)))[:-1]:
            await bench.beat(rng.choice([0, 5]), beat, False)
        await bench.reset()
        await interleaved(bench, rng, {flow: any_packet(rng) for flow in (0, 5, 7)})


@cocotb.test()
async def beats_with_holes_are_told(dut):
    """A beat that is not full, or has a hole, before the end spoils its packet, and no other."""
    if WIDTH == 1:
        return
    rng = random.Random(5)
    bench = Bench(dut, 4)
    await bench.reset()
    settings, _ = expected(f"{METHOD}:64B", "cuts", b"")
    for keep, last in [(1, False), (2, True), (0, False), (5, True), ((1 << WIDTH) - 2, False)]:
        if keep >> WIDTH:
            continue
        await bench.set(2, settings)
        await bench.beat(2, rng.randbytes(WIDTH), last, keep)
        if not last:
            await bench.beat(2, rng.randbytes(WIDTH), True)
        await bench.until([2])
        assert bench.ends[2][1] == 1, f"keep {keep:b} went unnoticed"
        await interleaved(bench, rng, {2: any_packet(rng), 4: any_packet(rng)})
