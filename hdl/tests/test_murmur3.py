"""Chunks through the core of MurmurHash3, held to the Rust reference and to a published value."""

import os
import random
import subprocess
import tempfile

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

# The x64 128-bit form with seed 0, as SMHasher's and other implementations print it.
FOX = b"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"


def expected(seed, data):
    """The hash, from the reference; nothing is computed here."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        line = f"murmur3 {seed} {file.name}\n"
        out = subprocess.run([os.environ["EXPECTED"]], input=line, text=True, capture_output=True, check=True)
    return out.stdout.split()[0]


async def begin(dut):
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
    await FallingEdge(dut.clk)
    dut.rst.value, dut.s_valid.value, dut.m_ready.value = 1, 0, 0
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def hashed(dut, rng, seed, data):
    """The core's hash of a chunk, as 32 hexadecimal digits; both sides pause at random."""
    beats = [data[at:at + 16] for at in range(0, len(data), 16)] or [b""]
    for number, beat in enumerate(beats):
        while rng.random() < 0.2:
            await FallingEdge(dut.clk)
        # What lies beyond the count is not to matter.
        dut.s_data.value = int.from_bytes(beat + rng.randbytes(16 - len(beat)), "little")
        dut.s_count.value, dut.s_last.value = len(beat), number == len(beats) - 1
        dut.seed.value = seed if number == 0 else rng.randrange(1 << 32)
        dut.s_valid.value = 1
        for _ in range(100):
            ready = dut.s_ready.value == 1
            await FallingEdge(dut.clk)
            if ready:
                break
        else:
            assert False, "a beat is never taken"
        dut.s_valid.value = 0
    for _ in range(100):
        if dut.m_valid.value == 1 and rng.random() < 0.5:
            value = int(dut.m_hash.value)
            dut.m_ready.value = 1
            await FallingEdge(dut.clk)
            dut.m_ready.value = 0
            return f"{value & (1 << 64) - 1:016x}{value >> 64:016x}"
        await FallingEdge(dut.clk)
    assert False, "no hash is told"


@cocotb.test()
async def a_published_value(dut):
    await begin(dut)
    data, right = FOX
    assert expected(0, data) == right, "the reference"
    assert await hashed(dut, random.Random(1), 0, data) == right


@cocotb.test()
async def every_length_up_to_a_few_blocks(dut):
    await begin(dut)
    rng = random.Random(2)
    for length in range(70):
        data, seed = rng.randbytes(length), rng.randrange(1 << 32)
        assert await hashed(dut, rng, seed, data) == expected(seed, data), f"{length} bytes"


@cocotb.test()
async def chunks_of_usual_lengths_and_bytes_of_one_value(dut):
    await begin(dut)
    rng = random.Random(3)
    for _ in range(40):
        length = rng.randrange(8192)
        data = rng.choice([rng.randbytes(length), bytes(length), b"\xff" * length])
        assert await hashed(dut, rng, 7, data) == expected(7, data), f"{length} bytes"


@cocotb.test()
async def a_reset_in_a_chunk_leaves_nothing(dut):
    await begin(dut)
    rng = random.Random(4)
    dut.s_data.value, dut.s_count.value, dut.s_last.value, dut.s_valid.value = 5, 16, 0, 1
    for _ in range(9):
        await FallingEdge(dut.clk)
    dut.rst.value, dut.s_valid.value = 1, 0
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    data = rng.randbytes(100)
    assert await hashed(dut, rng, 9, data) == expected(9, data)
