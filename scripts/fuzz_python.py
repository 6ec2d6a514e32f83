"""Random programs by CPython and as kernels, compared to the bit.

    python scripts/fuzz_python.py --programs 20000 --seed 1

CPython runs a program's text on small stand-ins for arrays, vectors and structs (scripts/python_oracle); Polyloom's
interpreter, the definition that its other engines are held to, runs it as a kernel. A difference is printed with the
smallest program that still has it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("POLYLOOM_TIER", "interp")

from python_oracle.compare import Difference, first_difference, reduced  # noqa: E402
from python_oracle.generate import Generator  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="the first program's seed")
    parser.add_argument("--most", type=int, default=5, help="how many differences end the run")
    parser.add_argument("--show", action="store_true", help="print the programs and do not run them")
    options = parser.parse_args()
    differences: list[Difference] = []
    start = time.time()
    for seed in range(options.seed, options.seed + options.programs):
        program = Generator(seed).program()
        if options.show:
            print(program.source)
            continue
        difference = first_difference(program)
        if difference is None:
            continue
        difference = reduced(difference)
        print(difference, flush=True)
        differences.append(difference)
        if len(differences) == options.most:
            break
    print(f"{seed + 1 - options.seed} programs, {len(differences)} with a difference, {time.time() - start:.0f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
