"""Exits of a process at random moments of its first milliseconds, while the background thread compiles with LLVM on a
starved machine: exit statuses, and how long exits took.

usage: python scripts/exit_soak.py [EXITS] [--seed N] [--busy N]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CHILD = """
import os, sys, time
import numpy as np
import polyloom as loom

os.nice(5)

@loom.kernel
def long(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    s = x[i]
    m = loom.mat44(s, 1.0, 2.0, 3.0, 4.0, s, 6.0, 7.0, 8.0, 9.0, s, 11.0, 12.0, 13.0, 14.0, s)
    for k in range(n):
        m = loom.inverse(m) * m + loom.transpose(m)
        s += loom.sin(m[0, 0]) * loom.cos(m[1, 1]) + loom.noise(loom.rand_init(k, i), loom.vec3(s, s, s))
        s += loom.determinant(m) + loom.pow(loom.abs(s), 0.3)
    x[i] = s

log = open(sys.argv[2], "w")
x = np.ones(20000, np.float32)
loom.launch(long, 20000, [x, 3])
time.sleep(float(sys.argv[1]))
log.write("end")
print("leaving", flush=True)
if sys.argv[3] == "exception":
    raise SystemExit(7)
sys.exit(7)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exits", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=int, default=4, help="processes that take the machine's time")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    statuses: Counter[str] = Counter()
    took: list[float] = []
    environment = os.environ | {"POLYLOOM_CACHE": "0"}
    folder = tempfile.TemporaryDirectory()
    program, log = Path(folder.name, "program.py"), Path(folder.name, "log")
    program.write_text(CHILD)
    try:
        for number in range(options.exits):
            how = draw.choice(["exit", "exception"])
            log.write_text("")
            command = [sys.executable, str(program), str(draw.uniform(0.0, 0.3)), str(log), how]
            child = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert child.stdout is not None
            child.stdout.readline()
            left = time.monotonic()
            _, errors = child.communicate(timeout=120)
            took.append(time.monotonic() - left)
            is_written = log.read_text() == "end"
            status = f"status {child.returncode}" + ("" if is_written else ", its file was not written")
            statuses[status] += 1
            if child.returncode != 7:
                print(f"exit {number}: {status}\\n{errors}")
    finally:
        for each in busy:
            each.kill()
        folder.cleanup()
    took.sort()
    print(f"{sum(statuses.values())} exits: " + ", ".join(f"{n} with {status}" for status, n in statuses.most_common()))
    print(f"seconds from the last statement to the end: median {took[len(took) // 2]:.2f}, longest {took[-1]:.2f}")
    sys.exit(0 if set(statuses) <= {"status 7"} else 1)


if __name__ == "__main__":
    main()
