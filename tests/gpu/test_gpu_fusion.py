"""Fused functions over arrays on devices: results there, with the bits of the CPU."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops


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
