"""A pipeline on all devices at once: two pictures are smoothed and combined, as tasks.

    python examples/tasks.py [--devices cpu sim:0] [--n 64] [--chart tasks.svg]

Each picture is smoothed several times, and the two have nothing to do with each other until they are combined. The
chart shows which device ran what, and what was copied.
"""

from __future__ import annotations

import argparse

import numpy as np
import polyloom as loom


@loom.kernel
def smooth(a: loom.array2d(dtype=float), b: loom.array2d(dtype=float)):
    i, j = loom.tid()
    n, m = a.shape[0], a.shape[1]
    total = a[(i + n - 1) % n, j] + a[(i + 1) % n, j] + a[i, (j + m - 1) % m] + a[i, (j + 1) % m]
    b[i, j] = 0.5 * a[i, j] + 0.125 * total


@loom.kernel
def combine(a: loom.array2d(dtype=float), b: loom.array2d(dtype=float), c: loom.array2d(dtype=float)):
    i, j = loom.tid()
    c[i, j] = loom.abs(a[i, j] - b[i, j])


def pipeline(pictures: list[np.ndarray], n_rounds: int) -> np.ndarray:
    """Launches the pipeline, as tasks if it is called within `loom.tasks`, and gives the array of its result."""
    shape = pictures[0].shape
    smoothed = []
    for picture in pictures:
        source, target = picture.copy(), np.empty_like(picture)
        for _ in range(n_rounds):
            loom.launch(smooth, shape, [source, target])
            source, target = target, source
        smoothed.append(source)
    result = np.empty_like(pictures[0])
    loom.launch(combine, shape, [*smoothed, result])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", nargs="+", default=None, help="by default the CPU and all GPUs")
    parser.add_argument("--n", type=int, default=64, help="the extent of the pictures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chart", default=None, help="a file for the Gantt chart")
    given = parser.parse_args()
    pictures = [np.random.default_rng(seed).random((given.n, given.n), np.float32) for seed in (1, 2)]
    expected = pipeline(pictures, given.rounds)
    for _ in range(3):
        with loom.tasks(given.devices) as t:
            result = pipeline(pictures, given.rounds)
    print(t)
    print("the bits of one device:", result.tobytes() == expected.tobytes())
    if given.chart:
        t.gantt(given.chart)


if __name__ == "__main__":
    main()
