"""Tests of the whole accelerator: jobs from a memory that answers late, and resets among them."""

import os
import random
import struct
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from test_chunker import expected, some_bytes

WIDTH = int(os.environ["WIDTH"])
METHOD = os.environ["METHOD"]

CONTROL, RING, COMPLETIONS, SIZE, OFFERED, TAKEN, DONE = 2, 4, 6, 8, 9, 10, 11
RUN, RESET = 1, 2
RING_AT, COMPLETIONS_AT, BUFFER_AT, POSITIONS_AT, END = 0, 2048, 4096, 16384, 65536
RING_LOG2 = 2


class Host:
    """Registers, and a memory that answers `latency` cycles after it was asked.

    It answers every read that it took, in order, whatever happens to the core meanwhile.
    """

    def __init__(self, dut, seed, latency, pause):
        self.dut, self.rng = dut, random.Random(seed)
        self.latency, self.pause = latency, pause
        self.memory = bytearray(END)
        self.owed = deque()
        self.number = 0
        cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
        cocotb.start_soon(self.serve())

    async def serve(self):
        dut, now = self.dut, 0
        while True:
            # Asked for here is what the next edge moves: `ready` does not change what is asked.
            await FallingEdge(dut.clk)
            now += 1
            due = bool(self.owed) and self.owed[0][0] <= now
            dut.rd_data_valid.value = due
            dut.rd_data.value = self.owed.popleft()[1] if due else self.rng.getrandbits(8 * WIDTH)
            read, write = self.rng.random() >= self.pause, self.rng.random() >= self.pause
            dut.rd_ready.value, dut.wr_ready.value = read, write
            if dut.rst.value == 1:
                continue
            if read and dut.rd_valid.value == 1:
                at = int(dut.rd_address.value)
                assert at + WIDTH <= END, f"a read at {at}"
                word = int.from_bytes(self.memory[at:at + WIDTH], "little")
                self.owed.append((now + self.latency, word))
            if write and dut.wr_valid.value == 1:
                at = int(dut.wr_address.value)
                assert at + 8 <= END, f"a write at {at}"
                self.memory[at:at + 8] = int(dut.wr_data.value).to_bytes(8, "little")

    async def set(self, register, value):
        dut = self.dut
        dut.reg_address.value, dut.reg_in.value, dut.reg_write.value = register, value, 1
        await FallingEdge(dut.clk)
        dut.reg_write.value = 0

    async def get(self, register):
        self.dut.reg_address.value = register
        await FallingEdge(self.dut.clk)
        return int(self.dut.reg_out.value)

    async def start(self):
        dut = self.dut
        self.memory, self.number = bytearray(END), 0
        dut.reg_write.value, dut.rst.value = 0, 1
        for _ in range(4):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        await self.set(RING, RING_AT)
        await self.set(COMPLETIONS, COMPLETIONS_AT)
        await self.set(SIZE, RING_LOG2)
        await self.set(CONTROL, RUN)

    async def reset(self, for_cycles=1):
        """The core's reset, as a driver does it: nothing that was offered is answered any more."""
        for _ in range(for_cycles):
            await self.set(CONTROL, RUN | RESET)
        await FallingEdge(self.dut.clk)
        # A write that memory took before may still land; from here on none comes.
        self.memory[COMPLETIONS_AT:BUFFER_AT] = bytes(BUFFER_AT - COMPLETIONS_AT)
        self.number = 0
        assert [await self.get(at) for at in (OFFERED, TAKEN, DONE)] == [0, 0, 0]

    async def offer(self, data, settings, tail=b""):
        """A descriptor for this buffer, and the number of the completion that will answer it."""
        place = RING_AT + 128 * (self.number % (1 << RING_LOG2))
        flags = sum(settings[key] << bit for bit, key in enumerate(["magic", "off", "at_min", "pass"]))
        self.ticket = self.rng.getrandbits(64)
        self.memory[place:place + 128] = struct.pack(
            "<QQIIQHHBBHIIIIQ64s", BUFFER_AT, POSITIONS_AT, len(data), 2048, self.ticket,
            settings["loose"], settings["strict"], flags, len(tail), 0, settings["min"],
            settings["expected"], settings["max"], 0, 0, tail.rjust(64, b"\xa5"))
        self.memory[BUFFER_AT:POSITIONS_AT] = self.rng.randbytes(POSITIONS_AT - BUFFER_AT)
        self.memory[BUFFER_AT:BUFFER_AT + len(data)] = data
        self.number += 1
        await self.set(OFFERED, self.number)

    async def answer(self):
        """The completion of what was offered last: ticket, positions, length, flags."""
        place = COMPLETIONS_AT + 32 * ((self.number - 1) % (1 << RING_LOG2))
        for _ in range(100_000):
            ticket, count, length, _, bytes_, flags, number = struct.unpack(
                "<QIIIIII", self.memory[place:place + 32])
            if number == self.number:
                positions = struct.unpack_from(f"<{count}I", self.memory, POSITIONS_AT)
                return ticket, list(positions), length, bytes_, flags
            await FallingEdge(self.dut.clk)
        assert False, f"job {self.number} was never answered"

    async def job(self, data, what):
        chunking, how = what
        settings, want = expected(chunking, how, data)
        await self.offer(data, settings)
        ticket, got, length, bytes_, flags = await self.answer()
        said = f"{chunking} {how} of {len(data)} bytes, memory {self.latency} cycles late"
        assert ticket == self.ticket, f"{said}: another job's ticket"
        assert (got, bytes_) == (want, len(data)), said
        assert flags & 5 == 0, f"{said}: flags {flags}"
        if how != "candidates":
            assert length == len(data) - (want or [0])[-1], said


def any_job(rng):
    length = rng.choice([0, 1, WIDTH, WIDTH + 1, 31 * WIDTH, rng.randrange(1500)])
    return some_bytes(rng, length), (f"{METHOD}:{rng.choice([64, 128])}B", rng.choice(["cuts", "at-min", "candidates"]))


async def resets(dut, latency, pause, rounds, within):
    """A job, a reset after so many cycles of it, and the same job again, which must be answered."""
    rng = random.Random(latency)
    host = Host(dut, latency, latency, pause)
    await host.start()
    for _ in range(rounds):
        data, what = any_job(rng)
        settings, _ = expected(*what, data)
        await host.offer(rng.randbytes(len(data)), settings)
        for _ in range(within(rng)):
            await FallingEdge(dut.clk)
        await host.reset(rng.choice([1, 1, 2, 40]))
        await host.job(data, what)


@cocotb.test()
async def jobs_are_answered_by_any_memory(dut):
    """Jobs one behind the other, from memories that answer at once or late, and pause or not."""
    rng = random.Random(1)
    host = Host(dut, 6, 1, 0)
    for host.latency, host.pause in [(1, 0), (1, 0.5), (20, 0), (40, 0.3)]:
        await host.start()
        for _ in range(6):
            await host.job(*any_job(rng))


@cocotb.test()
async def a_reset_while_a_descriptor_is_fetched_leaves_no_word_of_it(dut):
    """Words of the old descriptor arrive after the reset, and are nobody's."""
    await resets(dut, 20, 0, 30, lambda rng: rng.randrange(1, 40))


@cocotb.test()
async def a_reset_anywhere_in_a_job_leaves_nothing(dut):
    """In the descriptor, the buffer, the positions, or the completion."""
    await resets(dut, 25, 0.2, 40, lambda rng: rng.randrange(1, 400))


@cocotb.test()
async def a_reset_behind_a_reset_leaves_nothing(dut):
    """The second comes while memory still owes what was asked for before the first."""
    rng = random.Random(9)
    host = Host(dut, 9, 50, 0)
    await host.start()
    for _ in range(20):
        data, what = any_job(rng)
        settings, _ = expected(*what, data)
        for _ in range(rng.randrange(2, 4)):
            await host.offer(rng.randbytes(len(data)), settings)
            for _ in range(rng.randrange(1, 70)):
                await FallingEdge(dut.clk)
            await host.reset()
        await host.job(data, what)
