// Streams standard input through a Verilated chunker and prints where it cuts: for long runs beside the
// Rust reference, without a Python in between.
//
//   stream KEY=VALUE… [piece=BYTES] [seed=N] [stall=PERCENT] [split=OFFSET] < FILE
//
// Settings are those that `expected` prints. The stream goes in as packets of random length up to
// `piece`, on flows in turn, each with the context that the one before it left (its length and `early`
// come from the core, the last bytes from here). `stall` is how often the taker of cuts is not ready.
// With `split`, the first packet has that many bytes, and the second the rest.
#include "Vtc_chunker.h"
#include "verilated.h"
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

static std::map<std::string, std::string> settings;
static long number(const char *key, long otherwise) {
    auto found = settings.find(key);
    return found == settings.end() ? otherwise : std::stol(found->second);
}

struct Bench {
    Vtc_chunker top;
    uint64_t cycles = 0, beats = 0, random = 1;
    long stall = 0;
    bool ended = false, bad = false, early = false;
    uint32_t length = 0;
    std::vector<uint32_t> cuts;

    uint64_t draw() {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        return random;
    }
    // One cycle; what is on the wires at the edge counts.
    bool cycle() {
        top.m_ready = stall == 0 || long(draw() % 100) >= stall;
        top.clk = 0, top.eval();
        bool taken = top.s_valid && top.s_ready;
        if (top.m_valid && top.m_ready) {
            if (top.m_last) ended = true, bad = top.m_bad, early = top.m_early, length = top.m_length;
            else cuts.push_back(top.m_position);
        }
        top.clk = 1, top.eval();
        cycles++, beats += taken;
        return taken;
    }
    void beat(const uint8_t *bytes, int count, bool last, bool lead, int flow) {
        uint8_t data[WIDTH] = {0};
        memcpy(data, bytes, count);
        memcpy(&top.s_data, data, WIDTH);
        top.s_keep = count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
        top.s_last = last, top.s_lead = lead, top.s_id = flow, top.s_valid = 1;
        while (!cycle()) {}
        top.s_valid = 0;
    }
};

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        std::string word = argv[i];
        auto at = word.find('=');
        if (at == std::string::npos) return fprintf(stderr, "`%s`: write KEY=VALUE\n", argv[i]), 2;
        settings[word.substr(0, at)] = word.substr(at + 1);
    }
    Bench bench;
    auto &top = bench.top;
    bench.stall = number("stall", 0);
    bench.random = 88172645463325252ull + number("seed", 1);
    top.rst = 1;
    for (int i = 0; i < 4; i++) bench.cycle();
    top.rst = 0;

    std::vector<uint8_t> stream;
    uint8_t buffer[1 << 16];
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, stdin)) > 0;)
        stream.insert(stream.end(), buffer, buffer + got);

    long piece = number("piece", 262144), split = number("split", -1);
    uint64_t from = 0;
    int flow = 0;
    const int leads = (31 + WIDTH - 1) / WIDTH;
    bool first = true;
    do {
        uint64_t count = split >= 0 ? (first ? split : stream.size() - from) : 1 + bench.draw() % piece;
        if (count > stream.size() - from) count = stream.size() - from;
        first = false;
        int known = from < 31 ? int(from) : 31;
        top.set_valid = 1, top.set_flow = flow, top.set_known = known;
        top.set_loose = number("loose", 0), top.set_strict = number("strict", 0);
        top.set_magic = number("magic", 0), top.set_off = number("off", 0);
        top.set_min = number("min", 0), top.set_expected = number("expected", 0);
        top.set_max = number("max", 0), top.set_at_min = number("at_min", 0);
        top.set_pass = number("pass", 0);
        top.set_length = bench.length, top.set_early = bench.early;
        bench.cycle();
        top.set_valid = 0;
        // Lead beats: the last bytes before the packet, at the end of whole beats.
        std::vector<uint8_t> lead(leads * WIDTH, 0xA5);
        memcpy(lead.data() + lead.size() - known, stream.data() + from - known, known);
        for (int i = 0; i < leads; i++) bench.beat(&lead[i * WIDTH], WIDTH, false, true, flow);
        for (uint64_t at = 0;; at += WIDTH) {
            uint64_t left = count - at;
            bool last = left <= WIDTH;
            bench.beat(stream.data() + from + at, last ? int(left) : WIDTH, last, false, flow);
            if (last) break;
        }
        for (int patience = 0; !bench.ended; patience++) {
            bench.cycle();
            if (patience > 2000000) return fprintf(stderr, "no end of the packet came\n"), 1;
        }
        if (bench.bad) return fprintf(stderr, "the core says that the packet was malformed\n"), 1;
        bench.ended = false;
        for (uint32_t cut : bench.cuts) printf("%llu\n", (unsigned long long)(from + cut));
        bench.cuts.clear();
        from += count;
        flow = (flow + 1) % (1 << FLOWS_LOG2);
    } while (from < stream.size());
    fprintf(stderr, "bytes=%llu cycles=%llu beats=%llu\n", (unsigned long long)stream.size(),
            (unsigned long long)bench.cycles, (unsigned long long)bench.beats);
}
