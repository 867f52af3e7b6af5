"""One candidate under the load, once, in a guest.

    tiers_guest.py FOLDER

runs as process 1 of user-mode Linux: mounts the host's FOLDER, reads `run.json` there, makes the disk and the candidate on it,
runs the load, writes `result.json` beside it and powers off, whatever happened. What went wrong is on the console.
"""

import json
import os
import subprocess
import sys
import traceback

from tiers_candidates import CANDIDATES, LIBC, PRIVATE, SHARED, call, direct, engine_said, slow_disk
from tiers_load import fio, load

POWER_OFF = 0x4321FEDC
PROBE_SECONDS = 2


def run_once(folder):
    for kind, where in (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", PRIVATE)):
        call("mount", "-t", kind, kind, where)
    call("mount", "-t", "hostfs", "-o", folder, "hostfs", SHARED)
    run = json.loads((SHARED / "run.json").read_text())
    slow = slow_disk(run)
    probe = fio([*direct(slow), "--rw=randread", "--bs=4k", "--time_based", f"--runtime={PROBE_SECONDS}",
                 f"--size={run['volume_mib']}m"], PRIVATE)
    target, hits = CANDIDATES[run["candidate"]](run, slow)
    result = load(run, target, hits, PRIVATE)
    result["disk_alone_depth_1_us"] = probe["read"]["lat_ns"]["mean"] / 1e3
    result["kernel"] = os.uname().release
    (SHARED / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        run_once(sys.argv[1])
    except Exception:
        kernel_said = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
        print(kernel_said[-1500:], engine_said(PRIVATE), traceback.format_exc(), sep="\n", file=sys.stderr)
    finally:
        sys.stderr.flush()
        LIBC.reboot(POWER_OFF)
