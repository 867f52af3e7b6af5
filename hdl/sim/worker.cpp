// A Verilated accelerator as a worker process.
//
// Standard input is a socket that carries messages, standard output is shared memory: that is how
// thermocline starts workers (docs/formats/accelerator.md, "Workers"). This program is the core's
// host: it keeps descriptors, buffers and completions in one array, drives the registers, and
// answers memory's reads and writes cycle by cycle.
#include "Vtc_accelerator.h"
#include "verilated.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <sys/mman.h>
#include <unistd.h>

#pragma pack(push, 1)
struct Hello {
    char magic[4];
    uint32_t version, fingerprint, units;
};
struct Order {
    uint64_t ticket;
    uint32_t slot, length;
    uint16_t loose, strict;
    uint8_t fingerprint, flags, known, zero;
    uint32_t min, expected, max, under_way;
    uint8_t tail[32];
};
struct Answer {
    uint64_t ticket;
    uint32_t status, count, length, early;
    uint64_t cycles;
};
struct Descriptor {
    uint64_t buffer, positions;
    uint32_t length, positions_max;
    uint64_t ticket;
    uint16_t loose, strict;
    uint8_t flags, known;
    uint16_t zero;
    uint32_t min, expected, max, under_way;
    uint64_t nothing;
    uint8_t lead[64];
};
struct Completion {
    uint64_t ticket;
    uint32_t count, length, cycles, bytes, flags, number;
};
#pragma pack(pop)
static_assert(sizeof(Order) == 72 && sizeof(Answer) == 32, "messages are as drawn");
static_assert(sizeof(Descriptor) == 128 && sizeof(Completion) == 32, "rings are as drawn");

// Addresses: the rings, then shared memory.
static const uint64_t RING = 0, COMPLETIONS = 4096, SHARED = 8192;
static const int RING_LOG2 = 4;

struct Host {
    Vtc_accelerator top;
    uint8_t rings[SHARED] = {0};  // A place of completions that was never written has the number 0.
    uint8_t *shared;
    uint64_t shared_bytes;
    uint32_t number = 0;  // Descriptors that were offered since the core's last reset.

    // What memory was asked for and owes, in order. A reset of the core does not change it.
    struct Owed {
        uint64_t due;
        uint8_t word[WIDTH];
    };
    std::deque<Owed> owed;
    uint64_t now = 0;

    // For tests: memory that is not ready so often, in percent; cycles from a read to its answer;
    // jobs in which the core is reset, in percent, before they are offered again.
    static uint64_t set_to(const char *name, uint64_t otherwise) {
        return getenv(name) ? strtoull(getenv(name), nullptr, 10) : otherwise;
    }
    uint64_t stall = set_to("TC_STALL", 0), latency = set_to("TC_LATENCY", 1);
    uint64_t resets = set_to("TC_RESETS", 0);
    uint64_t random = 88172645463325252ull;
    uint64_t draw() {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        return random;
    }
    bool happens(uint64_t percent) { return percent && draw() % 100 < percent; }
    uint8_t *at(uint64_t address, uint64_t bytes) {
        if (address + bytes <= SHARED) return rings + address;
        if (address >= SHARED && address - SHARED + bytes <= shared_bytes)
            return shared + (address - SHARED);
        fprintf(stderr, "the core reaches out of memory, at %llu\n", (unsigned long long)address);
        exit(3);
    }
    void cycle() {
        now++;
        top.rd_ready = !happens(stall), top.wr_ready = !happens(stall);
        top.rd_data_valid = !owed.empty() && owed.front().due <= now;
        if (top.rd_data_valid) {
            memcpy(&top.rd_data, owed.front().word, WIDTH);
            owed.pop_front();
        }
        top.clk = 0, top.eval();
        if (top.rd_valid && top.rd_ready) {
            Owed answer = {now + latency, {}};
            memcpy(answer.word, at(top.rd_address, WIDTH), WIDTH);
            owed.push_back(answer);
        }
        if (top.wr_valid && top.wr_ready) {
            uint64_t word = top.wr_data;
            memcpy(at(top.wr_address, 8), &word, 8);
        }
        top.clk = 1, top.eval();
    }
    void set(int address, uint32_t value) {
        top.reg_write = 1, top.reg_address = address, top.reg_in = value;
        cycle();
        top.reg_write = 0;
    }
    void offer(const Descriptor &descriptor) {
        memcpy(rings + RING + sizeof descriptor * (number % (1 << RING_LOG2)), &descriptor, sizeof descriptor);
        set(9, ++number);
    }
    // Whether what was offered last is completed; and then, as what.
    bool completed(Completion *completion) {
        memcpy(completion, rings + COMPLETIONS + sizeof *completion * ((number - 1) % (1 << RING_LOG2)),
               sizeof *completion);
        return completion->number == number;
    }
    void reset() {
        set(2, 3);
        cycle();  // The registers are written in one cycle, and the core is reset in the next.
        memset(rings + COMPLETIONS, 0, SHARED - COMPLETIONS);
        number = 0;
    }
};

static bool whole(int file, void *bytes, size_t count, bool out) {
    for (size_t at = 0; at < count;) {
        ssize_t done = out ? write(file, (char *)bytes + at, count - at)
                           : read(file, (char *)bytes + at, count - at);
        if (done <= 0) return false;
        at += done;
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "thermocline starts this: worker SLOTS BUFFER\n"), 2;
    uint64_t slots = strtoull(argv[1], nullptr, 10), buffer = strtoull(argv[2], nullptr, 10);
    uint64_t slot_bytes = 5 * buffer + 64;
    Host host;
    host.shared_bytes = slots * slot_bytes;
    host.shared = (uint8_t *)mmap(nullptr, host.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 1, 0);
    if (host.shared == MAP_FAILED) return perror("shared memory"), 1;

    auto &top = host.top;
    top.rst = 1;
    for (int i = 0; i < 4; i++) host.cycle();
    top.rst = 0;
    host.set(4, RING), host.set(6, COMPLETIONS), host.set(8, RING_LOG2), host.set(2, 1);
    Hello hello = {{'T', 'C', 'W', '1'}, 1, FUNCTION + 1, 1};
    if (!whole(0, &hello, sizeof hello, true)) return 0;

    Order order;
    while (whole(0, &order, sizeof order, false)) {
        if (order.slot >= slots || order.length > buffer || order.known > 31) return 3;
        uint64_t base = order.slot * slot_bytes;
        Descriptor d = {};
        d.buffer = SHARED + base, d.positions = SHARED + base + buffer + 64;
        d.length = order.length, d.positions_max = uint32_t(buffer), d.ticket = order.ticket;
        d.loose = order.loose, d.strict = order.strict, d.flags = order.flags, d.known = order.known;
        d.min = order.min, d.expected = order.expected, d.max = order.max;
        d.under_way = order.under_way;
        memcpy(d.lead + 32, order.tail, 32);
        host.offer(d);
        if (host.happens(host.resets)) {
            for (uint64_t left = host.draw() % (300 + 4 * host.latency); left; left--) host.cycle();
            host.reset();
            host.offer(d);
        }
        Completion c;
        uint64_t patience = (1000000 + 400ull * order.length) * (1 + host.latency / 16);
        do host.cycle();
        while (!host.completed(&c) && --patience);
        Answer answer = {order.ticket, 0, c.count, c.length, (c.flags >> 1) & 1, c.cycles};
        if (!patience || c.ticket != order.ticket || (c.flags & 5)) answer.status = 2;
        if (answer.status)
            fprintf(stderr, "job %llu failed: length %u, sizes %u %u %u, chunk of %u under way, flags %u, %s\n",
                    (unsigned long long)order.ticket, order.length, order.min, order.expected,
                    order.max, order.under_way, c.flags, patience ? "answered" : "no answer");
        if (!whole(0, &answer, sizeof answer, true)) return 0;
        if (!patience) return 3;
    }
    return 0;
}
