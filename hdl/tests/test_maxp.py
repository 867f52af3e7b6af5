"""Streams through the core of MAXP, held to the Rust reference byte by byte."""

import os
import random
import subprocess
import tempfile

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


def expected(data):
    """Candidates, as positions behind their byte; nothing is computed here."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        line = f"maxp candidates {file.name}\n"
        out = subprocess.run([os.environ["EXPECTED"]], input=line, text=True, capture_output=True, check=True)
    return [int(position) for position in out.stdout.split("\n")[1].split()]


async def begin(dut):
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
    await FallingEdge(dut.clk)
    dut.rst.value, dut.s_valid.value = 1, 0
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def candidates(dut, rng, data, pause=0.1):
    """The core's candidates of a stream; bytes come with pauses."""
    found, told, at = [], 0, 0
    # The last byte of the stream before is still being told.
    dut.s_valid.value = 0
    for _ in range(3):
        await FallingEdge(dut.clk)
    for _ in range(20 * len(data) + 100):
        if dut.m_valid.value == 1:
            told += 1
            if dut.m_candidate.value == 1:
                found.append(told)
        if told == len(data):
            return found
        dut.s_valid.value = 0
        if at < len(data) and rng.random() >= pause:
            dut.s_valid.value, dut.s_first.value, dut.s_data.value = 1, at == 0, data[at]
            at += 1
        await FallingEdge(dut.clk)
    assert False, f"{told} of {len(data)} bytes were told"


@cocotb.test()
async def noise_and_runs(dut):
    await begin(dut)
    rng = random.Random(1)
    for _ in range(6):
        data = bytearray()
        while len(data) < 5000:
            run = rng.randrange(1, 200)
            data += rng.choice([rng.randbytes(run), bytes([rng.choice([0, 255, 7])]) * run, bytes(rng.choices([0, 1], k=run))])
        right = expected(bytes(data))
        assert len(right) > 20, "candidates are there to be found"
        assert await candidates(dut, rng, data) == right


@cocotb.test()
async def streams_of_every_short_length_and_what_came_before_is_forgotten(dut):
    await begin(dut)
    rng = random.Random(2)
    for length in list(range(1, 20)) + list(range(55, 140)):
        data = rng.randbytes(length)
        assert await candidates(dut, rng, data, pause=0.3) == expected(data), f"{length} bytes"


@cocotb.test()
async def values_next_to_the_modulus(dut):
    """Windows whose sums come to 2^64 or just miss it: the reduction."""
    await begin(dut)
    rng = random.Random(5)
    data = bytearray()
    for _ in range(150):
        old = [rng.choice([0, 15, 255, rng.randrange(256)]) for _ in range(16)]
        older = sum(byte << (4 * (15 - at)) for at, byte in enumerate(old))
        near = (2**64 - rng.randrange(1, 70) - rng.choice([0, 59 * (59 * older >> 64)]) - 59 * older) % 2**64
        data += bytes(old) + bytes(near >> (4 * (15 - at)) & 15 for at in range(16))
    right = expected(bytes(data))
    assert len(right) > 20, "candidates are there to be found"
    assert await candidates(dut, rng, data, pause=0) == right
