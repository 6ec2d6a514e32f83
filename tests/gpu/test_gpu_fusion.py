"""Fused functions over arrays on devices: results there, with the bits of the CPU."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops
from tensor_arrays import assert_same_bits
from test_fuse_devices import CASES, function_of


@loom.fuse
def chain(a, b):
    return ops.multiply(ops.tanh(ops.add(a, b)), 2.5)


@loom.fuse
def attention_weights(a, b):
    return ops.softmax(ops.add(a, b), axis=1)


@loom.fuse
def normalised(a, b):
    return ops.layer_norm(a, b, b)


@loom.fuse
def column_sums(a, b):
    return ops.sum(ops.multiply(a, b), axis=0)


@loom.fuse
def running(a, b):
    return ops.cumsum(ops.transpose(ops.add(a, b)), axis=0)


@pytest.mark.parametrize("function", [chain, attention_weights, normalised, column_sums, running])
@pytest.mark.parametrize("shape", [(3, 40), (65, 130)])
def test_fused_functions_have_the_bits_of_the_cpu(device, function, shape):
    random = np.random.default_rng(5)
    a, b = random.uniform(-3, 3, shape).astype(np.float32), random.uniform(-3, 3, shape[1]).astype(np.float32)
    given = function(loom.array(a), loom.array(b))
    assert given.device == device
    assert given.numpy().tobytes() == np.ascontiguousarray(function(a, b)).tobytes()


def test_calls_follow_each_other(device):
    a = np.linspace(-1, 1, 1000, dtype=np.float32)
    there, here = loom.array(a), a
    for _ in range(5):
        there, here = chain(there, there), chain(here, here)
    assert there.device == device
    assert there.numpy().tobytes() == here.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_groups_of_every_kind_have_the_bits_of_the_cpu(cuda, name):
    function, values = function_of(name)
    given = function(*(loom.array(value) for value in values))
    assert given.device == cuda
    assert_same_bits(given.numpy(), function(*values))


@loom.fuse
def block(x, p):
    h = ops.layer_norm(x, p["norm"], p["shift"])
    q, k, v = (ops.linear(h, p[name]) for name in ("q", "k", "v"))
    h = ops.add(x, ops.linear(ops.attention(q, k, v, causal=True), p["out"]))
    return ops.add(h, ops.linear(ops.gelu(ops.linear(h, p["up"]), "tanh"), p["down"]))


def loss(p, x, wanted):
    return ops.mean(ops.square(ops.subtract(block(x, p), wanted)))


def test_a_training_step_has_the_bits_of_the_cpu(device, small):
    random = np.random.default_rng(8)
    tokens, width = (9, 16) if small else (200, 64)
    shapes = {name: (width, width) for name in ("q", "k", "v", "out")}
    shapes |= {"norm": (width,), "shift": (width,), "up": (4 * width, width), "down": (width, 4 * width)}
    p = {name: random.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    x, wanted = (random.normal(size=(2, tokens, width)).astype(np.float32) for _ in range(2))
    here = loom.grad(loss)(p, x, wanted)
    there = loom.grad(loss)({name: loom.array(each) for name, each in p.items()}, loom.array(x), loom.array(wanted))
    for name in p:
        assert there[name].device == device
        assert_same_bits(there[name].numpy(), here[name])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 13, 5), (33, 64, 70), (130, 300, 129)])
def test_products_have_the_bits_of_the_cpu(cuda, dtype, shape):
    rows, inner, columns = shape
    random = np.random.default_rng(9)
    a, b = (random.integers(-8, 8, size).astype(dtype) for size in ((rows, inner), (inner, columns)))
    if np.dtype(dtype).kind == "f":
        a, b = a / dtype(7), b / dtype(3)
    assert_same_bits(ops.matmul(loom.array(a), loom.array(b)).numpy(), ops.matmul(a, b))
