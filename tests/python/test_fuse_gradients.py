"""Gradients of functions of tensors, against JAX, against differences in float64, and by hand."""

import dataclasses
import re
import textwrap
from typing import NamedTuple

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from polyloom import _native, ops
from tensor_arrays import numbers

jax = pytest.importorskip("jax")
jnp = jax.numpy

F32, F64 = np.float32, np.float64


@pytest.fixture(autouse=True)
def with_float64():
    with jax.enable_x64(True):
        yield


def leaves(tree):
    return jax.tree_util.tree_leaves(tree)


def assert_close(given, wanted, dtype=F64):
    given, wanted = leaves(given), leaves(wanted)
    assert len(given) == len(wanted)
    for ours, theirs in zip(given, wanted, strict=True):
        theirs = np.asarray(theirs)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        tolerance = 1e-10 if dtype == F64 else 2e-5
        np.testing.assert_allclose(
            ours, theirs, rtol=tolerance, atol=tolerance * max(1.0, np.abs(theirs).max(initial=0))
        )


# Each function twice: of ops, and of JAX.


def mlp(p, x, y):
    h = ops.tanh(ops.add(ops.matmul(x, p["w1"]), p["b1"]))
    return ops.mean(ops.square(ops.subtract(ops.matmul(h, p["w2"]), y)))


def jax_mlp(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)


def layer_norm(x, w, b):
    return ops.sum(ops.multiply(ops.layer_norm(x, w, b), ops.sin(x)))


def jax_layer_norm(x, w, b):
    normal = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return jnp.sum((normal * w + b) * jnp.sin(x))


def cross_entropy(logits, target):
    return ops.cross_entropy(logits, target)


def jax_cross_entropy(logits, target):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits, axis=1), target[:, None], axis=1))


def logsumexp(x):
    return ops.sum(ops.logsumexp(x, axis=1) * ops.max(x, axis=1))


def jax_logsumexp(x):
    return jnp.sum(jax.nn.logsumexp(x, axis=1) * jnp.max(x, axis=1))


def attention(q, k, v):
    scores = ops.matmul(q, ops.transpose(k)) / float(np.sqrt(q.shape[-1]))
    return ops.sum(ops.square(ops.matmul(ops.softmax(scores, axis=-1), v)))


def jax_attention(q, k, v):
    scores = q @ jnp.swapaxes(k, -1, -2) / float(np.sqrt(q.shape[-1]))
    return jnp.sum((jax.nn.softmax(scores, axis=-1) @ v) ** 2)


def scan(x):
    return ops.sum(ops.sin(ops.cumsum(x, axis=1)) * ops.cumprod(x, axis=0))


def jax_scan(x):
    return jnp.sum(jnp.sin(jnp.cumsum(x, axis=1)) * jnp.cumprod(x, axis=0))


def choice(x, y):
    return ops.sum(ops.where(x > y, ops.exp(x), ops.square(y)) + ops.maximum(x, y) * ops.clip(x, -1.0, 1.5))


def jax_choice(x, y):
    return jnp.sum(jnp.where(x > y, jnp.exp(x), y**2) + jnp.maximum(x, y) * jnp.clip(x, -1.0, 1.5))


def broadcast(a, b, c):
    return ops.sum((a * b - c / (1.5 + ops.square(b))) ** 3)


def jax_broadcast(a, b, c):
    return jnp.sum((a * b - c / (1.5 + b**2)) ** 3)


def slices(x):
    return ops.sum(x[1:, ::2] * x[:-1, 1::2] - x[0, :4] * x[-1, None, ::-2] + x[..., 1:, 2, None] ** 2)


def jax_slices(x):
    return jnp.sum(x[1:, ::2] * x[:-1, 1::2] - x[0, :4] * x[-1, None, ::-2] + x[1:, 2, None] ** 2)


def joined(x, y):
    z = ops.concat([x, ops.transpose(y), x * 2.0], axis=1)
    return ops.sum(ops.exp(z.reshape(-1, 2)[:, 0]) * ops.stack([z, z], axis=0).sum(0).T.ravel()[: z.size // 2])


def jax_joined(x, y):
    z = jnp.concatenate([x, y.T, x * 2.0], axis=1)
    return jnp.sum(jnp.exp(z.reshape(-1, 2)[:, 0]) * jnp.stack([z, z], axis=0).sum(0).T.ravel()[: z.size // 2])


def functions(x, y):
    z = ops.gelu(x) + ops.silu(y) * ops.sigmoid(x) + ops.softplus(y) + ops.erf(x) / ops.hypot(x, y)
    return ops.sum(z * ops.atan2(x, y) + ops.sqrt(ops.absolute(x)) ** 1.5)


def jax_functions(x, y):
    z = jax.nn.gelu(x, approximate=False) + jax.nn.silu(y) * jax.nn.sigmoid(x) + jax.nn.softplus(y)
    z = z + jax.scipy.special.erf(x) / jnp.hypot(x, y)
    return jnp.sum(z * jnp.arctan2(x, y) + jnp.sqrt(jnp.abs(x)) ** 1.5)


def moments(x):
    return ops.sum(x.std(axis=0) * x.var(axis=0, ddof=1)) + ops.norm(x) + x.mean() * x.prod()


def jax_moments(x):
    return jnp.sum(x.std(axis=0) * x.var(axis=0, ddof=1)) + jnp.sqrt(jnp.sum(x * x)) + x.mean() * x.prod()


def spelled_as_numpy(x, y):
    z = np.where(x > 0.5, np.exp(x) @ y.T, np.sqrt(1.0 + x * x) @ y.T) if x.shape == y.shape else x
    return np.sum(np.maximum(z, 0.25) ** 2) - np.concatenate([x, y]).mean()


def jax_spelled(x, y):
    z = jnp.where(x > 0.5, jnp.exp(x) @ y.T, jnp.sqrt(1.0 + x * x) @ y.T)
    return jnp.sum(jnp.maximum(z, 0.25) ** 2) - jnp.concatenate([x, y]).mean()


CASES = {
    "mlp": (mlp, jax_mlp, [{"w1": (5, 8), "b1": (8,), "w2": (8, 3)}, (6, 5), (6, 3)]),
    "layer norm": (layer_norm, jax_layer_norm, [(5, 33), (33,), (33,)]),
    "logsumexp": (logsumexp, jax_logsumexp, [(4, 40)]),
    "attention": (attention, jax_attention, [(2, 6, 8), (2, 5, 8), (2, 5, 3)]),
    "scans": (scan, jax_scan, [(4, 7)]),
    "choices": (choice, jax_choice, [(40,), (40,)]),
    "broadcasting": (broadcast, jax_broadcast, [(3, 1, 5), (4, 1), ()]),
    "slices": (slices, jax_slices, [(5, 8)]),
    "joined": (joined, jax_joined, [(4, 3), (2, 4)]),
    "functions": (functions, jax_functions, [(50,), (50,)]),
    "moments": (moments, jax_moments, [(4, 3)]),
    "numpy's spelling": (spelled_as_numpy, jax_spelled, [(3, 3), (3, 3)]),
}


def values_of(shapes, dtype=F64, seed=0):
    if isinstance(shapes, dict):
        return {name: values_of(shape, dtype, seed + n) for n, (name, shape) in enumerate(shapes.items())}
    if isinstance(shapes, list):
        return [values_of(shape, dtype, seed + 17 * n) for n, shape in enumerate(shapes)]
    return numbers(shapes, dtype, seed, -2.0, 2.0)


@pytest.mark.parametrize("dtype", [F64, F32])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_jax(name, dtype):
    function, of_jax, shapes = CASES[name]
    args = values_of(shapes, dtype)
    every = tuple(range(len(args)))
    value, gradients = loom.value_and_grad(function, every)(*args)
    wanted = jax.value_and_grad(of_jax, every)(*args)
    assert_close(value, wanted[0], dtype)
    assert_close(gradients, wanted[1], dtype)
    assert_close(loom.grad(function, every)(*args), wanted[1], dtype)


@pytest.mark.parametrize("name", [name for name in CASES if name != "choices"])
def test_gradients_are_differences(name):
    function, _, shapes = CASES[name]
    args = values_of(shapes, seed=3)
    gradients = loom.grad(function, tuple(range(len(args))))(*args)
    random = np.random.default_rng(1)
    step = 1e-6
    for number, arg in enumerate(args):
        direction = jax.tree_util.tree_map(lambda x: random.normal(size=np.shape(x)), arg)

        def moved(sign, number=number, arg=arg, direction=direction):
            there = jax.tree_util.tree_map(lambda x, toward: np.asarray(x + sign * step * toward), arg, direction)
            return float(loom.value_and_grad(function)(*args[:number], there, *args[number + 1 :])[0])

        slope = (moved(1) - moved(-1)) / (2 * step)
        ours = sum(float(np.sum(g * d)) for g, d in zip(leaves(gradients[number]), leaves(direction), strict=True))
        assert ours == pytest.approx(slope, rel=2e-5, abs=2e-6)


def test_classes_are_constants():
    logits, target = numbers((7, 5), F64), np.array([0, 4, 1, 1, 2, 3, 0])
    assert_close(loom.grad(cross_entropy)(logits, target), jax.grad(jax_cross_entropy)(logits, target))


def test_ties_go_to_the_first():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    gradient = loom.grad(lambda x: ops.sum(ops.max(x, axis=1)))(x)
    assert gradient.tolist() == [[0, 1, 0], [1, 0, 0]]
    a, b = loom.grad(lambda a, b: ops.sum(ops.maximum(a, b)), (0, 1))(np.zeros(2), np.array([0.0, 1.0]))
    assert (a.tolist(), b.tolist()) == ([1, 0], [0, 1])


def test_a_fused_function_runs_forward_and_backward_as_one_plan():
    f = loom.fuse(loaded("def f(x, w):\n    return ops.sum(ops.tanh(ops.multiply(x, w)))\n")["f"])
    x, w = numbers((40,), F32, 1), numbers((40,), F32, 2)
    gradient = loom.grad(f, 1)
    hits, misses, _ = _native.trace_plans()
    given = [gradient(x, w) for _ in range(5)][-1]
    assert _native.trace_plans()[:2] == (hits + 4, misses + 1)
    np.testing.assert_allclose(given, x * (1 - np.tanh(x * w) ** 2), rtol=1e-5, atol=1e-6)
    assert f.cache_info().hits == 0


def test_forward_and_backward_are_few_kernels():
    def loss(x, w):
        return ops.sum(ops.tanh(x * w + 1.0) * w)

    x, w = numbers((64, 40), F32, 1), numbers((64, 40), F32, 2)
    # The value and both gradients come from one pass over two arrays.
    for made in (loom.value_and_grad(loss, (0, 1)), loom.grad(loss, (0, 1))):
        assert made.explain(x, w).startswith("1 kernel, 41.0 kB moved; op by op")


def test_gradients_add_over_uses():
    x = numbers((5,), F64)
    gradient = loom.grad(lambda a, b: ops.sum(a * a * b + a), (0, 1))(x, x)
    assert_close(gradient, (2 * x * x + 1, x * x))


class Weights(NamedTuple):
    scale: np.ndarray
    shift: np.ndarray


@dataclasses.dataclass
class Model:
    inner: Weights
    layers: list
    rate: object = None


def test_gradients_have_the_structure_of_the_argument():
    def loss(p, x):
        z = x * p.inner.scale + p.inner.shift
        for layer in p.layers:
            z = ops.tanh(ops.matmul(z, layer["w"]))
        return ops.sum(z)

    layers = [{"w": numbers((3, 4), F64, 1)}, {"w": numbers((4, 2), F64, 2)}]
    model = Model(Weights(numbers((3,), F64, 3), np.asarray(0.5)), layers)
    gradients = loom.grad(loss)(model, numbers((6, 3), F64, 4))
    assert type(gradients) is Model and type(gradients.inner) is Weights and gradients.rate is None
    assert [each["w"].shape for each in gradients.layers] == [(3, 4), (4, 2)]
    assert gradients.inner.shift.shape == ()

    def of_jax(scale, shift, layers, x):
        z = x * scale + shift
        for layer in layers:
            z = jnp.tanh(z @ layer["w"])
        return jnp.sum(z)

    wanted = jax.grad(of_jax, (0, 1, 2))(*model.inner, layers, numbers((6, 3), F64, 4))
    assert_close((*gradients.inner, gradients.layers), wanted)


def test_what_is_beside_the_loss():
    def loss(w, x):
        z = ops.matmul(x, w)
        return ops.sum(z * z), {"z": z, "n": 3, "x": x, "rows": (ops.argmax(z), [w])}

    w, x = numbers((3,), F64, 1), numbers((4, 3), F64, 2)
    gradient, aux = loom.grad(loss, has_aux=True)(w, x)
    (value, again), both = loom.value_and_grad(loss, has_aux=True)(w, x)
    assert_close(gradient, 2 * x.T @ (x @ w))
    assert_close(both, gradient)
    assert float(value) == pytest.approx(float(np.sum((x @ w) ** 2)))
    for given in (aux, again):
        assert_close(given["z"], x @ w)
        assert given["n"] == 3 and given["x"] is x
        assert int(given["rows"][0]) == int(np.argmax(x @ w))
        assert np.array_equal(given["rows"][1][0], w)


def test_gradients_of_gradients():
    x, v = numbers((6,), F64, 1), numbers((6,), F64, 2)

    def f(x):
        return ops.sum(ops.sin(x) * ops.exp(x[::-1]))

    def of_jax(x):
        return jnp.sum(jnp.sin(x) * jnp.exp(x[::-1]))

    def along(grad, f, sum_of):
        return lambda x: sum_of(grad(f)(x) * v)

    assert_close(loom.grad(along(loom.grad, f, ops.sum))(x), jax.grad(along(jax.grad, of_jax, jnp.sum))(x))
    third = loom.grad(lambda x: loom.grad(lambda x: loom.grad(lambda x: x**5)(x))(x))
    assert float(third(np.asarray(2.0))) == 240.0


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 300, 300), (2, 257, 290), (1, 300, 130)])
def test_attention_of_many_queries(causal, shape):
    """The weights of some queries are there at a time."""
    batch, n_queries, n_keys = shape
    q, k, v = (numbers((batch, n, 8), F64, seed) for seed, n in enumerate((n_queries, n_keys, n_keys)))
    v = v[..., :5]
    c = numbers((batch, n_queries, 5), F64, 3)
    if causal and n_keys < n_queries:
        n_queries = n_keys
        q, c = q[:, :n_queries], c[:, :n_queries]

    def of_jax(q, k, v):
        scores = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(8.0)
        seen = np.arange(n_keys)[None] <= np.arange(n_queries)[:, None] + n_keys - n_queries
        scores = jnp.where(seen, scores, -jnp.inf) if causal else scores
        return (jax.nn.softmax(scores) @ v * c).sum()

    gradient = loom.grad(lambda q, k, v: ops.sum(ops.attention(q, k, v, causal=causal) * c), argnums=(0, 1, 2))
    assert_close(gradient(q, k, v), jax.grad(of_jax, argnums=(0, 1, 2))(q, k, v))


def test_slices_of_all_kinds_have_one_gradient():
    """Slices beside each other, of which some overlap, leave gaps or are taken twice."""
    x = numbers((7, 12), F64)

    def f(xp, x, sum_):
        total = sum_(x[0] * 1.5) + sum_(x[2:4, 3:5] ** 2) + sum_(x[4] * x[0]) + sum_(x[5:, ::-2] * 3.0)
        for i in range(0, 12, 4):
            total = total + sum_(x[:, i : i + 3] ** 3)
        for i in range(7):
            total = total + sum_(x[i] ** 2 * (i + 1.0))
        return total + sum_(x[1:3] * x[3:5]) + sum_(x[:0])

    assert_close(loom.grad(lambda x: f(ops, x, ops.sum))(x), jax.grad(lambda x: f(jnp, x, jnp.sum))(x))
    for parts in ([(0, 3), (3, 7)], [(1, 2), (4, 6)], [(0, 4), (2, 7)], [(2, 5)], [(0, 7), (0, 7)], [(6, 7), (0, 1)]):

        def g(x, sum_, parts=parts):
            pieces = [sum_(x[a:b, 1:9] ** 3) + sum_(x[a:b, 9:12] ** 2) for a, b in parts]
            return sum(pieces[1:], pieces[0])

        assert_close(loom.grad(lambda x: g(x, ops.sum))(x), jax.grad(lambda x: g(x, jnp.sum))(x))  # noqa: B023


def test_levels_do_not_mix():
    # d/dx (x * d/dy (x + y)) is 1, not 2.
    outer = loom.grad(lambda x: x * loom.grad(lambda y: x + y)(np.asarray(1.0)))
    assert float(outer(np.asarray(3.0))) == 1.0
    # The inner gradient is by y alone, and x goes through it.
    mixed = loom.grad(lambda x: loom.grad(lambda y: x * x * y**3)(x))
    assert float(mixed(np.asarray(2.0))) == 3 * 4 * 2.0**3


@pytest.mark.parametrize("name", ["mlp", "layer norm", "attention", "scans", "slices", "joined"])
def test_pullbacks_and_tangents_agree(name):
    function, of_jax, shapes = CASES[name]
    args = values_of(shapes)
    tangents = values_of(shapes, seed=50)
    value, moved = loom.jvp(function, args, tangents)
    again, pullback = loom.vjp(function, *args)
    assert_close(value, again)
    gradients = pullback(1.0)
    ours = sum(float(np.sum(g * t)) for g, t in zip(leaves(gradients), leaves(tangents), strict=True))
    assert float(moved) == pytest.approx(ours, rel=1e-9)
    assert_close(moved, jax.jvp(of_jax, tuple(args), tuple(tangents))[1])


def test_pullbacks_of_structures():
    def f(p, x):
        z = ops.matmul(x, p["w"])
        return {"z": z, "best": ops.argmax(z, axis=0)}, [ops.sum(z), x * 2.0]

    p, x = {"w": numbers((3, 2), F64)}, numbers((4, 3), F64, 1)
    outputs, pullback = loom.vjp(f, p, x)
    assert_close(outputs[0]["z"], x @ p["w"])
    cz, cs, cx = numbers((4, 2), F64, 2), 0.5, numbers((4, 3), F64, 3)
    by_p, by_x = pullback(({"z": cz, "best": None or np.zeros(2, np.int64)}, [cs, cx]))
    assert_close(by_p, {"w": x.T @ (cz + cs)})
    assert_close(by_x, (cz + cs) @ p["w"].T + 2 * cx)
    _, moved = loom.jvp(f, (p, x), ({"w": np.ones((3, 2))}, np.zeros((4, 3))))
    assert_close(moved[0]["z"], x @ np.ones((3, 2)))
    assert moved[0]["best"] is None
    with pytest.raises(ValueError, match=r"the cotangent of result\[0\]\['z'\] has the shape \(2, 4\)"):
        pullback(({"z": cz.T, "best": np.zeros(2, np.int64)}, [cs, cx]))
    with pytest.raises(TypeError, match=r"the cotangent of result\[0\]\['z'\] is of type float32"):
        pullback(({"z": cz.astype(F32), "best": np.zeros(2, np.int64)}, [cs, cx]))
    with pytest.raises(ValueError, match=r"the structure of the cotangents.*it lacks \[0\]\['best'\]"):
        pullback(({"z": cz}, [cs, cx]))


@pytest.mark.parametrize("name", sorted(CASES))
def test_pullbacks_that_keep_all_some_or_nothing(name):
    function, of_jax, shapes = CASES[name]
    args = values_of(shapes)
    _, pull_of_jax = jax.vjp(of_jax, *args)
    wanted = pull_of_jax(np.float64(1.5))
    sizes = []
    for max_bytes in (None, 1000, 0):
        _, pullback = loom.vjp(function, *args, max_bytes=max_bytes)
        assert_close(pullback(1.5), wanted)
        sizes.append(pullback.n_bytes)
    everything, some, nothing = sizes
    assert nothing == 0 and some <= min(everything, 1000)


def test_pullbacks_keep_what_is_dear():
    """Of each layer the result of `tanh`, by which its slope and the product's gradient are found."""

    def layers(x, w):
        for _ in range(4):
            x = ops.tanh(ops.matmul(x, w) * 0.5)
        return ops.sum(x)

    x, w = numbers((16, 16), F64), numbers((16, 16), F64, 1)

    def jax_layers(x, w):
        for _ in range(4):
            x = jnp.tanh(x @ w * 0.5)
        return x.sum()

    wanted = jax.grad(jax_layers, argnums=(0, 1))(x, w)
    one = 16 * 16 * 8
    for max_bytes, n_kept in ((None, 4), (4 * one, 4), (4 * one - 1, 3), (one, 1), (one - 1, 0)):
        _, pullback = loom.vjp(layers, x, w, max_bytes=max_bytes)
        assert pullback.n_bytes == n_kept * one
        assert_close(pullback(1.0), wanted)


def test_results_may_be_written_to_before_the_way_back():
    x = numbers((8, 4), F64)
    outputs, pullback = loom.vjp(lambda x: (ops.tanh(x), ops.transpose(ops.exp(ops.exp(x)))), x)
    wanted = 1 - np.tanh(x) ** 2 + np.exp(x) * np.exp(np.exp(x))
    for output in outputs:
        output[:] = 7.0
    assert_close(pullback((np.ones((8, 4)), np.ones((4, 8)))), (wanted,))


def test_pullbacks_within_gradients():
    x, c = numbers((5,), F64), numbers((5,), F64, 1)

    def slope(x):
        _, pullback = loom.vjp(lambda x: ops.tanh(x * x), x)
        return ops.sum(pullback(c)[0])

    def slope_of_jax(x):
        return jax.vjp(lambda x: jnp.tanh(x * x), x)[1](jnp.asarray(c))[0].sum()

    assert_close(loom.grad(slope)(x), jax.grad(slope_of_jax)(x))


def test_hessian_vector_products():
    x, v = numbers((6,), F64, 1), numbers((6,), F64, 2)

    def f(x):
        return ops.logsumexp(x * x)

    forward = loom.jvp(loom.grad(f), [x], [v])[1]
    backward = loom.grad(lambda x: ops.sum(loom.grad(f)(x) * v))(x)
    wanted = jax.jvp(jax.grad(lambda x: jax.nn.logsumexp(x * x)), (x,), (v,))[1]
    assert_close(forward, wanted)
    assert_close(backward, wanted)


def test_python_decides_at_each_call():
    steps = 2

    def power(x, positive):
        y = x
        for _ in range(steps):
            y = y * x
        return ops.sum(y if positive else -y)

    gradient = loom.grad(power)
    x = numbers((4,), F64)
    assert_close(gradient(x, True), 3 * x**2)
    assert_close(gradient(x, False), -3 * x**2)
    steps = 3
    assert_close(gradient(x, True), 4 * x**3)
    assert_close(gradient(x[:2], True), 4 * x[:2] ** 3)


def test_numbers_that_change_need_no_new_plan():
    def loss(x, rate):
        return ops.sum(x * rate)

    gradient, x = loom.grad(loss), numbers((4,), F32)
    gradient(x, 0.3)
    misses = _native.trace_plans()[1]
    for rate in (0.7, 0.11, 123.0):
        assert_close(gradient(x, rate), np.full(4, rate, F32), F32)
    assert _native.trace_plans()[1] == misses


def test_captured_arrays_are_constants():
    table = numbers((5,), F64, 3)
    gradient = loom.grad(lambda x: ops.sum(ops.matmul(x, table) * table[0]))
    assert_close(gradient(table), table * table[0])


def test_a_loss_that_does_not_depend():
    value, gradient = loom.value_and_grad(lambda x: 3.5)(np.ones(3, F32))
    assert float(value) == 3.5 and gradient.dtype == F32 and gradient.tolist() == [0, 0, 0]
    assert loom.grad(lambda x, y: ops.sum(y), (0, 1))(np.ones(2), np.ones(3))[0].tolist() == [0, 0]


def test_arrays_of_the_package():
    x, w = loom.array(numbers((4, 3), F32, 1)), loom.array(numbers((3,), F32, 2))
    value, gradient = loom.value_and_grad(lambda w: ops.sum(ops.square(ops.matmul(x, w))))(w)
    assert isinstance(gradient, loom.array)
    wanted = 2 * x.numpy().T @ (x.numpy() @ w.numpy())
    assert_close(gradient.numpy(), wanted, F32)
    assert isinstance(loom.grad(lambda w: ops.sum(w * x))(w.numpy()), np.ndarray)
    assert isinstance(loom.grad(lambda w: ops.sum(x * w))(w), loom.array)


def test_on_a_device():
    x, w = numbers((4, 3), F32, 1), numbers((3,), F32, 2)

    def loss(w, x):
        return ops.sum(ops.tanh(ops.matmul(x, w)))

    there = loom.grad(loss)(loom.array(w, device="sim:0"), loom.array(x, device="sim:0"))
    assert there.device == "sim:0"
    assert there.numpy().tobytes() == loom.grad(loss)(w, x).tobytes()
    with pytest.raises(ValueError, match=r"are on device 'sim:0' and on device 'cpu'|on device 'cpu' and .* 'sim:0'"):
        loom.grad(loss)(loom.array(w, device="sim:0"), x)


@pytest.mark.parametrize("dtype", [np.float16, F32, F64])
def test_element_types(dtype):
    x = numbers((5,), dtype)
    gradient = loom.grad(lambda x: ops.sum(x * x))(x)
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient, 2 * x, rtol=1e-3)


def test_methods_and_static_functions():
    class Net:
        def __init__(self):
            self.scale = 3.0

        @loom.fuse
        def loss(self, w):
            return ops.sum(ops.multiply(ops.square(w), self.scale))

    assert loom.grad(Net().loss)(np.ones(2)).tolist() == [6, 6]
    gradient = loom.grad(Net.loss, 1)
    assert gradient(Net(), np.ones(2)).tolist() == [6, 6]
    assert gradient.__name__ == "loss" and "gradient of `loss`" in gradient.__doc__


def test_views_and_layouts():
    x = numbers((6, 5), F64)
    for view in (x.T, x[::-2], np.asfortranarray(x), x[:, 1:3], np.broadcast_to(x[0], (4, 5))):
        assert_close(loom.grad(lambda a: ops.sum(ops.sin(a)))(view), np.cos(view))


def test_a_function_that_calls_a_fused_one():
    inner = loom.fuse(loaded("def f(x):\n    return ops.multiply(ops.sin(x), 2.0)\n")["f"])
    x = numbers((4,), F64)
    for _ in range(3):
        assert_close(loom.grad(lambda x: ops.sum(inner(x)))(x), 2 * np.cos(x))
    np.testing.assert_allclose(inner(x), 2 * np.sin(x))


# Errors.


def error_of(body, *args, kind=TypeError, call="loom.grad(f)"):
    """The message of a function with this body, and the name of the line that it is at."""
    text = "def f(x, y=None):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    module = loaded(text, np=np, loom=loom)
    with pytest.raises(kind) as caught:
        eval(call, {"loom": loom, "f": module["f"]})(*args)
    return str(caught.value)


X = np.ones(3, F32)


@pytest.mark.parametrize(
    ("body", "message", "line"),
    [
        ("if ops.sum(x) > 0:\n    return ops.sum(x)\nreturn -x", "the truth of a tensor is not known.*ops.where", 2),
        ("s = ops.sum(x)\nreturn x * float(s)", r"leave out float\(…\)", 3),
        ("return ops.sum(x) * ops.sum(x).item()", r"leave out \.item\(\)", 2),
        ("n = int(ops.sum(x))\nreturn x[n]", r"the integer of a tensor.*astype", 2),
        ("return np.linalg.norm(x, 1)", r"np\.linalg\.norm with ord=1 is not traced", 2),
        ("return np.median(x)", r"np\.median is no op, and has no gradient", 2),
        ("return np.asarray(x).sum()", "the array of a tensor is not known", 2),
        ("x[0] = 1.0\nreturn ops.sum(x)", "a tensor is not assigned to.*ops.where", 2),
        ("return ops.sum(x[np.array([0, 1])])", r"an index is an integer, a slice, None.*not ndarray.*ops\.take", 2),
        ("y = np.zeros(3, np.float32)\ny += x\nreturn ops.sum(y)", r"write `a = a \+ b` in place of", 3),
    ],
)
def test_errors_name_the_line(body, message, line):
    text = error_of(body, X)
    assert re.search(message, text), text
    assert re.search(rf":{line}: ", text), text


def test_errors_of_losses_and_arguments():
    assert (
        "`f` gives a tensor float32[3], and a gradient is of one floating-point number: return ops.sum(…)"
        in error_of("return x * 2", X)
    )
    assert "gives an object of type str" in error_of("return 'a'", X)
    assert "gives a tensor int64[]" in error_of("return ops.argmax(x)", X)
    assert "with has_aux=True gives a pair, (loss, aux), not a tensor float32[]" in error_of(
        "return ops.sum(x)", X, call="loom.grad(f, has_aux=True)"
    )
    text = error_of("return ops.sum(x['w'])", {"w": X, "n": [np.arange(3)]})
    assert "argument 0 of grad: `f`['n'][0] is of type int64, and gradients are by floating-point numbers" in text
    assert "['flag'] is of type bool" in error_of("return ops.sum(x['w'])", {"w": X, "flag": True})
    assert "['name'] is str, which has no gradient" in error_of("return ops.sum(x['w'])", {"w": X, "name": "a"})
    assert "is called with 1 arguments by position, there is no 1" in error_of(
        "return ops.sum(x)", X, call="loom.grad(f, 1)"
    )


def test_errors_of_ops_are_theirs():
    assert "`matmul`" in error_of("return ops.sum(ops.matmul(x, ops.concat([x, x])))", X, kind=ValueError)
    assert "`add`: `b` is str, not a tensor or a number" in error_of("return ops.sum(ops.add(x, 'a'))", X)
    assert "index 3 is out of bounds for axis 0 of 3 elements" in error_of("return x[3]", X, kind=IndexError)


def test_tensors_that_are_left_behind_are_refused():
    kept = []

    def loss(x):
        kept.append(x * 2)
        return ops.sum(x)

    loom.grad(loss)(X)
    with pytest.raises(TypeError, match="its gradient has been computed|whose gradient has been computed"):
        ops.add(kept[0], 1.0)
    with pytest.raises(TypeError, match="whose gradient has been computed"):
        loom.grad(lambda x: ops.sum(x * kept[0]))(X)


def test_functions_of_kernels_are_refused():
    @loom.func
    def square(x: float):
        return x * x

    with pytest.raises(TypeError, match="under @func is for kernels; outside of them, record launches with Tape"):
        loom.grad(square)
    with pytest.raises(TypeError, match="takes a function, not int"):
        loom.grad(3)


def test_the_product_of_numpy_is_that_of_matrices_alone():
    x, y = numbers((2, 3), F64), numbers((3, 4), F64, 1)
    assert_close(loom.grad(lambda x: ops.sum(np.dot(x, y) * 2.0))(x), 2 * np.broadcast_to(y.sum(1), (2, 3)))
    assert_close(loom.grad(lambda x: ops.sum(x.dot(3.0)))(x), np.full((2, 3), 3.0))
    with pytest.raises(TypeError, match="np.dot of tensors of 2 and 3 axes is not traced: write ops.matmul"):
        loom.grad(lambda x: ops.sum(np.dot(x, numbers((2, 3, 4), F64))))(x)


def test_an_argument_is_differentiated_by_once():
    with pytest.raises(ValueError, match="is differentiated by argument 0 twice"):
        loom.grad(lambda x: ops.sum(x), argnums=(0, -1))(np.ones(2))


def test_axes_that_are_none_are_refused():
    for function in (lambda x: x.squeeze(5), lambda x: np.expand_dims(x, 9), lambda x: x.sum().squeeze(0)):
        with pytest.raises(ValueError, match="there is no axis"):
            loom.grad(lambda x, function=function: ops.sum(function(x)))(np.ones((2, 1)))


def test_what_a_trace_reads_cannot_be_written_meanwhile():
    s = np.ones(3, np.float32)

    def loop(x):
        total = ops.sum(x * 0.0)
        for i in range(3):
            s[:] = i
            total = total + ops.sum(x * s)
        return total

    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        loom.grad(loop)(x)
    # It may be written again once the function has returned, or raised.
    s[:] = 2.0
    x += 1
    with pytest.raises(ValueError, match="read-only"):
        loom.value_and_grad(lambda x: x.__imul__(2.0) if isinstance(x, np.ndarray) else ops.sum(x * s) + s.fill(0))(x)
    s[:] = 3.0
    assert np.array_equal(loom.grad(lambda x: ops.sum(x * s))(x), s) and s.flags.writeable and x.flags.writeable


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.take(x, np.array([0, 2, 0]), axis=1) * np.arange(3.0)),
        lambda x: np.sum(np.take(x, np.array([0, 5, 0])) * np.arange(3.0)),
        lambda x: np.sum(np.sort(x) * np.arange(3.0)),
        lambda x: np.sum(np.sort(x, axis=None) * np.arange(6.0)),
        lambda x: np.sum(np.take_along_axis(x, np.array([[1], [2]]), axis=1) * np.array([[2.0], [3.0]])),
        lambda x: np.sum(np.take_along_axis(x, np.argsort(x), axis=1) * np.arange(3.0)),
        lambda x: np.sum(np.einsum("ij,kj->ik", x, np.arange(6.0).reshape(2, 3)) ** 2.0),
        lambda x: np.sum(np.pad(x, ((1, 0), (0, 2)), constant_values=2.0) ** 2.0 * np.arange(15.0).reshape(3, 5)),
        lambda x: np.sum(np.pad(x, 1) * np.arange(20.0).reshape(4, 5)),
        lambda x: np.linalg.norm(x),
        lambda x: np.sum(np.linalg.norm(x, axis=1, keepdims=True) * np.array([[2.0], [3.0]])),
    ],
)
def test_functions_of_numpy_that_are_ops_are_traced(f):
    x = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -0.75]])
    steps = np.zeros((6, 2, 3))
    steps.reshape(6, 6)[np.arange(6), np.arange(6)] = 1e-6
    expected = [(f(x + step) - f(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(np.asarray(loom.grad(f)(x)).ravel(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: ops.conv1d(x, np.ones((3, 2, 3)), stride=2), (0, 2, 5)),
        (lambda x: ops.conv2d(x, np.ones((3, 2, 2, 2)), stride=2), (0, 2, 5, 5)),
        (lambda x: ops.conv2d(x, np.ones((0, 2, 2, 2)), stride=2), (1, 2, 5, 5)),
        (lambda x: ops.max_pool2d(x, 3, stride=2, padding=1), (0, 2, 5, 5)),
        (lambda x: ops.avg_pool2d(x, 2, stride=3), (2, 0, 5, 5)),
        (lambda x: ops.windows(x, 1, 2, 3, 1), (0, 5)),
    ],
)
def test_windows_of_empty_tensors_have_gradients(f, shape):
    x = np.ones(shape)
    gradient = np.asarray(loom.grad(lambda x: ops.sum(f(x)))(x))
    np.testing.assert_array_equal(gradient, np.zeros(shape))
    value, tangent = loom.jvp(lambda x: ops.sum(f(x)), (x,), (x,))
    assert (float(value), float(tangent)) == (0.0, 0.0)
