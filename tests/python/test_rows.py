"""Arrays of matrices, quaternions and transformations, whose components are moved together.

Any number of threads, views that take steps, are reversed or begin in the middle, elements found through indices, in
every engine.
"""

from typing import Any

import numpy as np
import polyloom as loom
import pytest

mat35 = loom.types.matrix((3, 5), loom.float32)


@loom.kernel
def turn33(a: loom.array(dtype=loom.mat33), out: loom.array(dtype=loom.mat33)):
    i = loom.tid()
    out[i] = loom.transpose(a[i]) * 2.0


@loom.kernel
def turn33d(a: loom.array(dtype=loom.mat33d), out: loom.array(dtype=loom.mat33d)):
    i = loom.tid()
    out[i] = loom.transpose(a[i]) * loom.float64(2.0)


@loom.kernel
def turn44(a: loom.array(dtype=loom.mat44), out: loom.array(dtype=loom.mat44)):
    i = loom.tid()
    out[i] = loom.transpose(a[i]) * 2.0


@loom.kernel
def turn35(a: loom.array(dtype=mat35), out: loom.array(dtype=mat35)):
    i = loom.tid()
    m = a[i]
    for row in range(3):
        for column in range(5):
            out[i, row, column] = m[(row + 1) % 3, column] + m[row, 4 - column]


@loom.kernel
def swap(a: loom.array(dtype=loom.transform), out: loom.array(dtype=loom.transform)):
    i = loom.tid()
    t = a[i]
    if t[6] > 0.0:
        out[i] = loom.transform(loom.vec3(t[6], t[5], t[4]), loom.quat(t[3], t[2], t[1], t[0]))


@loom.kernel
def pick(a: loom.array(dtype=loom.mat33), at: loom.array(dtype=int), out: loom.array(dtype=loom.mat33)):
    i = loom.tid()
    out[i] = loom.transpose(a[at[i]])


def turned(a: Any) -> Any:
    return a.swapaxes(1, 2) * a.dtype.type(2)


def turned35(a: Any) -> Any:
    return a[:, [1, 2, 0]] + a[:, :, ::-1]


def swapped(a: Any) -> Any:
    return np.where(a[:, 6:] > 0, a[:, ::-1], 0)


KERNELS = [
    (turn33, (3, 3), np.float32, turned),
    (turn33d, (3, 3), np.float64, turned),
    (turn44, (4, 4), np.float32, turned),
    (turn35, (3, 5), np.float32, turned35),
    (swap, (7,), np.float32, swapped),
]
VIEWS = [slice(None), slice(3, None), slice(None, None, 2), slice(None, None, -1), slice(40, 2, -3)]


def check() -> None:
    random = np.random.default_rng(5)
    for kernel, shape, dtype, expected in KERNELS:
        for n in (1, 15, 16, 17, 100):
            whole = random.normal(size=(n, *shape)).astype(dtype)
            for view in VIEWS:
                a = whole[view]
                if len(a) == 0:
                    continue
                target = np.zeros((n + 2, *shape), dtype)
                loom.launch(kernel, len(a), [a, target[1 : 1 + len(a)]])
                want = np.zeros_like(target)
                want[1 : 1 + len(a)] = expected(a)
                np.testing.assert_array_equal(target, want, err_msg=f"{kernel} {n} {view}")
                backwards = np.zeros((n, *shape), dtype)
                loom.launch(kernel, len(a), [a, backwards[::-1][: len(a)]])
                np.testing.assert_array_equal(backwards[::-1][: len(a)], expected(a), err_msg=f"{kernel} {n} {view}")
    a = random.normal(size=(50, 3, 3)).astype(np.float32)
    at = random.integers(-50, 50, 131).astype(np.int32)
    out = np.zeros((131, 3, 3), np.float32)
    loom.launch(pick, 131, [a, at, out])
    np.testing.assert_array_equal(out, a[at].swapaxes(1, 2))


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_every_engine(tier, on_tier):
    on_tier(tier, "import test_rows; test_rows.check()")
