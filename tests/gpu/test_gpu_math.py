"""Mathematical functions in the mode `strict` have the CPU's bits, which are the interpreter's."""

import numpy as np
import polyloom as loom
import pytest

NAMES = """
sin cos tan asin acos atan sinh cosh tanh exp log log2 log10 sqrt cbrt erf erfc erfinv erfcinv abs sign floor ceil trunc
round rint frac degrees radians step nonzero
""".split()
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-40, -1e-310, 3.4e38, 1e-3, 2.0**23 + 0.5]


@pytest.mark.parametrize("dtype", [loom.float32, loom.float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", NAMES)
def test_functions_of_one_argument(same_as_cpu, name, dtype):
    function = getattr(loom, name)

    @loom.kernel
    def apply(x: loom.array(dtype=dtype), out: loom.array(dtype=dtype)):
        i = loom.tid()
        out[i] = function(x[i])

    random = np.random.default_rng(6)
    parts = [SPECIAL, random.uniform(-1, 1, 500), random.normal(size=500) * 50, 10 ** random.uniform(-38, 38, 500)]
    with np.errstate(over="ignore"):
        x = np.concatenate(parts).astype(dtype.numpy)
    same_as_cpu(apply, len(x), [x, np.zeros_like(x)])


@pytest.mark.parametrize("dtype", [loom.float32, loom.float64], ids=lambda dtype: dtype.name)
def test_functions_of_two_arguments(same_as_cpu, dtype):
    @loom.kernel
    def apply(x: loom.array(dtype=dtype), y: loom.array(dtype=dtype), out: loom.array(dtype=dtype, ndim=2)):
        i = loom.tid()
        out[i, 0] = loom.pow(x[i], y[i])
        out[i, 1] = loom.atan2(x[i], y[i])
        out[i, 2] = x[i] / y[i]
        out[i, 3] = loom.mod(x[i], y[i])
        out[i, 4] = loom.min(x[i], y[i])
        out[i, 5] = loom.floordiv(x[i], y[i])

    random = np.random.default_rng(7)
    x = np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), random.normal(size=300) * 8])
    y = np.concatenate([np.tile(SPECIAL, len(SPECIAL)), random.normal(size=300) * 3])
    with np.errstate(over="ignore"):
        x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    same_as_cpu(apply, len(x), [x, y, np.zeros((len(x), 6), dtype.numpy)])


def test_vectors_matrices_and_quaternions(same_as_cpu):
    @loom.kernel
    def apply(m: loom.array(dtype=loom.mat33), v: loom.array(dtype=loom.vec3), out: loom.array(dtype=loom.vec3)):
        i = loom.tid()
        q = loom.quat_from_axis_angle(loom.normalize(v[i]), loom.length(v[i]))
        out[i] = loom.quat_rotate(q, loom.inverse(m[i]) * v[i]) + loom.cross(v[i], loom.vec3(1.0, 2.0, 3.0))

    random = np.random.default_rng(8)
    m, v = random.normal(size=(200, 3, 3)).astype(np.float32), random.normal(size=(200, 3)).astype(np.float32)
    same_as_cpu(apply, 200, [m, v, np.zeros_like(v)])


def test_random_numbers(same_as_cpu):
    @loom.kernel
    def draw(out: loom.array(dtype=float, ndim=2)):
        i = loom.tid()
        state = loom.rand_init(7, i)
        out[i, 0] = loom.randf(state)
        out[i, 1] = loom.randn(state)
        out[i, 2] = loom.noise(state, loom.vec2(0.3 * float(i), 1.7))

    same_as_cpu(draw, 500, [np.zeros((500, 3), np.float32)])
