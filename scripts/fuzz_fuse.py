"""Random Python functions with `ops.*` calls, run as they are written and fused: nobody may see a difference.

    python scripts/fuzz_fuse.py --programs 20000 --seed 1

With `--numpy`, functions in the spelling of NumPy, whose values may differ by rounding; with `--models`, functions of
ops of models: products, convolutions, attention, pooling, scans, sorts and indices.

Exits with 1 at the first difference, and prints the program.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from capture_oracle import Writer
from fusion_oracle import compare, model_programs, numpy_programs, programs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--all", action="store_true", help="go on after a difference")
    parser.add_argument("--numpy", action="store_true", help="programs in NumPy's spelling")
    parser.add_argument("--models", action="store_true", help="programs of the ops of models")
    arguments = parser.parse_args()
    import polyloom

    fuse_numpy = polyloom.fuse(numpy=True)
    n_kernels = n_runs = n_fused = n_wrong = 0
    for i in range(arguments.first, arguments.first + arguments.programs):
        number = arguments.seed * 1_000_003 + i
        inputs = []
        if arguments.models:
            text, inputs = model_programs.program(number)
        else:
            text = numpy_programs.program(number) if arguments.numpy else programs.program(Writer(number))
        for seed in (i, i + 17) if arguments.numpy or arguments.models else (i % 6, (i * 5 + 3) % 6):
            if arguments.models:
                make = model_programs.world(inputs, seed)
                wrong, function = compare.difference(text, "f", make, polyloom.fuse, model_programs.Recorder)
            elif arguments.numpy:
                wrong, function = numpy_programs.difference(text, seed, fuse_numpy)
            else:
                wrong, function = compare.difference(text, "f", programs.random_world(seed), polyloom.fuse)
            n_runs += 1
            if wrong:
                n_wrong += 1
                print(f"program {i}, run {seed}:\n{wrong}\n{text}\n{function.explain()}")
                if not arguments.all:
                    sys.exit(1)
                break
        groups = list(function.groups)
        n_kernels += len(groups)
        ran = sum(group.native.n_runs for group in groups)
        n_fused += ran > 0
    counts = f"{arguments.programs} programs, {n_wrong} with a difference"
    print(f"{counts}; {n_runs} runs, {n_kernels} groups, {n_fused} programs ran one")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
