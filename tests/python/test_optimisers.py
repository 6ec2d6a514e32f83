"""`loom.optim` against PyTorch's and Warp's formulas, written in NumPy in float64."""

import math

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops
from polyloom.optim import SGD, Adam, AdamW
from tensor_arrays import numbers

SHAPES = [(4, 3), (3,), (1,), (2, 3, 5)]


def sgd(p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    buffer = None
    for g in grads:
        g = g + weight_decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


def adam(p, grads, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, is_decoupled=False):
    m = v = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        if is_decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


CASES = {
    "descent": (SGD, sgd, {"lr": 0.1}),
    "decay": (SGD, sgd, {"lr": 0.1, "weight_decay": 0.3}),
    "momentum": (SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    "dampening": (SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1}),
    "nesterov": (SGD, sgd, {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    "adam": (Adam, adam, {"lr": 0.1}),
    "adam with decay": (Adam, adam, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.3}),
    "no means": (Adam, adam, {"lr": 0.1, "betas": (0.0, 0.0)}),
    "adamw": (AdamW, lambda *a, **k: adam(*a, is_decoupled=True, **k), {"lr": 0.1, "weight_decay": 0.5}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_both_ways_are_the_formula(name, dtype):
    make, formula, options = CASES[name]
    starts = [numbers(shape, dtype, n) for n, shape in enumerate(SHAPES)]
    grads = [[numbers(shape, dtype, 10 * step + n) for n, shape in enumerate(SHAPES)] for step in range(1, 6)]
    wanted = [
        formula(p.astype(np.float64), [step[n].astype(np.float64) for step in grads], **options)
        for n, p in enumerate(starts)
    ]
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-5, "atol": 1e-5}
    optimiser, params = make(**options), {"a": starts[:2], "b": tuple(starts[2:])}
    for step in grads:
        params = optimiser.update(params, {"a": step[:2], "b": tuple(step[2:])})
    for given, want in zip([*params["a"], *params["b"]], wanted, strict=True):
        assert given.dtype == dtype
        np.testing.assert_allclose(given, want, **tolerance)
    arrays = [loom.array(p, requires_grad=True) for p in starts]
    in_place = make(arrays, **options)
    for step in grads:
        for each, g in zip(arrays, step, strict=True):
            each.grad.assign(g)
        in_place.step()
    for each, want in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(each.numpy(), want, **tolerance)
    assert optimiser.t == in_place.t == 5


def test_given_parameters_stay():
    params, grads = [np.ones(3), np.ones((2, 2))], [np.ones(3), np.ones((2, 2))]
    optimiser = SGD(lr=0.5)
    once = optimiser.update(params, grads)
    twice = optimiser.update(once, grads)
    assert params[0].tolist() == [1, 1, 1] and once[0].tolist() == [0.5] * 3 and twice[1].tolist() == [[0, 0]] * 2
    # What somebody writes into the parameters counts, and so do others in their place.
    twice[0][:] = 7.0
    assert optimiser.update(twice, grads)[0].tolist() == [6.5] * 3
    assert optimiser.update([np.zeros(3), np.zeros((2, 2))], grads)[0].tolist() == [-0.5] * 3


def test_rates_may_change():
    optimiser, p = SGD(lr=1.0), np.zeros(2)
    for rate in (1.0, 0.5, 0.25):
        optimiser.lr = rate
        p = optimiser.update(p, np.ones(2))
    assert p.tolist() == [-1.75, -1.75]


def test_mixed_types_and_packages():
    params = {"a": np.ones(3, np.float32), "b": np.ones(2), "c": loom.array(np.ones((2, 2), np.float32)), "d": None}
    params["h"] = np.ones(2, np.float16)
    grads = {name: each if each is None else each * 1.0 for name, each in params.items()}
    made = Adam(lr=0.5).update(params, grads)
    assert made["a"].dtype == np.float32 and made["b"].dtype == np.float64 and made["d"] is None
    assert isinstance(made["c"], loom.array) and made["c"].shape == (2, 2) and made["h"].dtype == np.float16
    for name in "abch":
        np.testing.assert_allclose(np.asarray(made[name]), 0.5, rtol=1e-3)


def test_vectors_and_layouts():
    p = loom.array(np.ones((4, 3), np.float32), dtype=loom.vec3, requires_grad=True)
    p.grad.fill_(loom.vec3(1.0, 2.0, 3.0))
    SGD([p], lr=0.5).step()
    assert p.numpy()[0].tolist() == [0.5, 0.0, -0.5]
    with pytest.raises(ValueError, match="parameter 0 is not contiguous in memory"):
        SGD([loom.array(np.ones((4, 4), np.float32))[:, 1]])
    x = np.asfortranarray(numbers((3, 4), np.float64))
    np.testing.assert_allclose(SGD(lr=1.0).update([x, x.T], [x, x.T])[1], 0.0)


def test_on_a_device():
    starts = [numbers(shape, np.float32, n) for n, shape in enumerate(SHAPES)]
    there = [loom.array(p, device="sim:0") for p in starts]
    optimiser, host = Adam(lr=0.1), Adam(lr=0.1)
    params = starts
    for _ in range(2):
        there, params = optimiser.update(there, there), host.update(params, params)
    for given, want in zip(there, params, strict=True):
        assert given.device == "sim:0"
        np.testing.assert_allclose(given.numpy(), want, rtol=1e-6)
    arrays = [loom.array(p, device="sim:0", requires_grad=True) for p in starts]
    in_place = Adam(arrays, lr=0.1)
    for each in arrays:
        each.grad.fill_(1.0)
    in_place.step()
    np.testing.assert_allclose(arrays[0].numpy(), starts[0] - 0.1, rtol=1e-5, atol=1e-6)


def test_with_tapes():
    @loom.kernel
    def distance(x: loom.array(dtype=float), y: loom.array(dtype=float), loss: loom.array(dtype=float)):
        i = loom.tid()
        loom.atomic_add(loss, 0, (x[i] - y[i]) * (x[i] - y[i]))

    x, y = loom.zeros(4, requires_grad=True), loom.array(np.arange(4, dtype=np.float32))
    optimiser = Adam([x], lr=0.1)
    for _ in range(300):
        loss, tape = loom.zeros(1, requires_grad=True), loom.Tape()
        with tape:
            loom.launch(distance, 4, [x, y], [loss])
        tape.backward(loss)
        optimiser.step()
        tape.zero()
    np.testing.assert_allclose(x.numpy(), y.numpy(), atol=1e-2)
    # Warp's spelling.
    optimiser.reset_internal_state()
    optimiser.set_params([x])
    optimiser.step([loom.ones(4)])
    np.testing.assert_allclose(x.numpy(), y.numpy() - 0.1, atol=2e-2)


def test_training():
    def loss(p, x, y):
        h = ops.tanh(ops.matmul(x, p["w1"]) + p["b1"])
        return ops.mean(ops.square(ops.matmul(h, p["w2"]) - y))

    x = numbers((128, 2), np.float32, 1, -1, 1)
    y = x[:, 0] * x[:, 1]
    params = {"w1": numbers((2, 16), np.float32, 2), "b1": np.zeros(16, np.float32), "w2": np.zeros(16, np.float32)}
    optimiser = AdamW(lr=0.02, weight_decay=1e-4)
    for _ in range(300):
        value, grads = loom.value_and_grad(loss)(params, x, y)
        params = optimiser.update(params, grads)
    assert float(value) < 0.01


def test_errors():
    with pytest.raises(RuntimeError, match="SGD parameters must be set before calling step"):
        SGD().step()
    with pytest.raises(ValueError, match="nesterov=True needs a momentum above 0"):
        SGD(nesterov=True)
    with pytest.raises(ValueError, match="lr is not below 0, and is -1.0"):
        Adam(lr=-1.0)
    with pytest.raises(ValueError, match="betas are from 0 on and below 1"):
        Adam(betas=(0.9, 1.0))
    with pytest.raises(ValueError, match=r"parameter 0 has no gradient: set requires_grad=True"):
        SGD([loom.zeros(3)]).step()
    with pytest.raises(TypeError, match="parameter 0 is of type .*int32.*optimisers change floating-point numbers"):
        SGD([loom.zeros(3, dtype=loom.int32)])
    with pytest.raises(ValueError, match=r"the structure of the gradients.*it lacks \['b'\]"):
        SGD().update({"a": np.ones(1), "b": np.ones(1)}, {"a": np.ones(1)})
    with pytest.raises(ValueError, match=r"grads\['a'\] has the shape \(2,\), and the parameter \(1,\)"):
        SGD().update({"a": np.ones(1)}, {"a": np.ones(2)})
    with pytest.raises(TypeError, match=r"grads\['a'\] is of type float32, and the parameter of type float64"):
        SGD().update({"a": np.ones(1)}, {"a": np.ones(1, np.float32)})
    with pytest.raises(TypeError, match=r"params\[0\] is str, not an array"):
        SGD().update(["a"], ["a"])
    optimiser = Adam()
    optimiser.update([np.ones(2)], [np.ones(2)])
    with pytest.raises(ValueError, match="other shapes, types or devices than at the first step"):
        optimiser.update([np.ones(3)], [np.ones(3)])
    with pytest.raises(ValueError, match="another structure than at the first step"):
        optimiser.update((np.ones(2),), (np.ones(2),))
    on_cpu, elsewhere = (loom.array(np.ones(2), device=device) for device in ("cpu", "sim:0"))
    of_arrays = Adam()
    of_arrays.update([on_cpu], [on_cpu])
    with pytest.raises(ValueError, match="other shapes, types or devices than at the first step"):
        of_arrays.update([elsewhere], [elsewhere])
    one = np.ones(1)
    with pytest.raises(ValueError, match="its items are in another order"):
        Adam().update({"a": one, "b": one}, {"b": one, "a": one})
    ordered = Adam()
    ordered.update({"a": one, "b": one}, {"a": one, "b": one})
    with pytest.raises(ValueError, match="another structure than at the first step"):
        ordered.update({"b": one, "a": one}, {"b": one, "a": one})
    assert math.isclose(optimiser.lr, 0.001)


def test_numbers_among_parameters_become_arrays():
    adam = loom.optim.SGD(lr=0.5)
    for _ in range(2):
        params = {"w": np.ones(2, np.float32), "b": np.float32(1.0), "c": 2.0}
        grads = {"w": np.ones(2, np.float32), "b": np.ones((), np.float32), "c": 1.0}
        params = adam.update(params, grads)
        assert [float(params["b"]), float(params["c"])] == [0.5, 1.5] and params["b"].dtype == np.float32


def test_rates_that_are_no_numbers_are_refused():
    for call in (lambda: loom.optim.SGD(lr=float("nan")), lambda: loom.optim.Adam(eps=float("nan"))):
        with pytest.raises(ValueError, match="is nan"):
            call()


def test_a_rate_in_the_place_of_parameters_is_told():
    with pytest.raises(
        TypeError, match=r"Adam takes the arrays that a tape changes first, and the rate by name: Adam\(lr=0.01\)"
    ):
        loom.optim.Adam(0.01)
