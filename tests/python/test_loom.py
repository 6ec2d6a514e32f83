"""`.loom` files: modules, devices, shapes, gradients, and examples with their twins in Python."""

import re
import warnings
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest

FOLDER = Path(__file__).parents[2]
EXAMPLES = FOLDER / "examples" / "loom"


def example(name):
    return getattr(loom.import_module(EXAMPLES / f"{name}.loom"), name)


def random(*shape, seed=1):
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def same_on_simulator(program, *args):
    """The results on the CPU, after the simulator has given the same bits."""
    here = program(*args, device="cpu")
    there = program(*args, device="sim:0")
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (here, there)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return here


def test_programs_of_the_issue_run_as_they_stand():
    module = loom.import_module(EXAMPLES / "matmul.loom")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(same_on_simulator(module.scale, x, 2.0), 2 * x)
    a, b = random(5, 7), random(7, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        products = [module.matmul(a, b) for _ in range(2)]
    if not loom.is_cuda_available():
        assert [str(warning.message) for warning in caught] == [
            "matmul prefers cuda:0, which is not there: the CPU runs it"
        ]
    np.testing.assert_array_equal(products[0], products[1])
    np.testing.assert_array_equal(same_on_simulator(module.matmul, a, b), products[0])
    np.testing.assert_allclose(products[0], a.astype(np.float64) @ b, rtol=1e-5)
    double = module.matmul(a.astype(np.float64), b.astype(np.float64), device="cpu")
    assert double.dtype == np.float64
    with pytest.raises(ValueError, match="`K` is 7 by axis 1 of `A` and 5 by axis 0 of `B`"):
        module.matmul(a, a, device="cpu")


def test_required_devices_are_required():
    module = loom.loom_module('kernel f(x: array<f32, n>) @device("cuda:7", require) { for i in 0..n { x[i] = 1.0 } }')
    with pytest.raises(RuntimeError, match="requires cuda:7"):
        module.f(random(3))


def test_results_and_gradients_go_through_arrays_of_the_caller():
    module = loom.import_module(EXAMPLES / "matmul.loom")
    x = loom.array(random(4), dtype=loom.float32, requires_grad=True)
    y = loom.zeros(4, dtype=loom.float32, requires_grad=True)
    tape = loom.Tape()
    with tape:
        module.scale.launch(x, 3.0, y)
    y.grad = loom.array(np.ones(4, np.float32))
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(4, 3, np.float32))


def test_mistakes_are_errors_of_the_import():
    with pytest.raises(loom.CompileError, match="`z` is not defined"):
        loom.loom_module("kernel f(x: array<f32, n>) { for i in 0..n { x[i] = z } }")


@loom.kernel
def twin_matmul(a: loom.array2d(dtype=float), b: loom.array2d(dtype=float), c: loom.array2d(dtype=float)):
    i, j = loom.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@loom.func
def twin_normal(x: float):
    return 0.5 * (1.0 + loom.erf(x / loom.sqrt(2.0)))


@loom.kernel
def twin_black_scholes(
    spot: loom.array(dtype=float),
    strike: loom.array(dtype=float),
    years: loom.array(dtype=float),
    rate: float,
    volatility: float,
    call: loom.array(dtype=float),
    put: loom.array(dtype=float),
):
    i = loom.tid()
    root = volatility * loom.sqrt(years[i])
    d1 = (loom.log(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / root
    d2 = d1 - root
    discounted = strike[i] * loom.exp(-rate * years[i])
    call[i] = spot[i] * twin_normal(d1) - discounted * twin_normal(d2)
    put[i] = discounted * twin_normal(-d2) - spot[i] * twin_normal(-d1)


@loom.kernel
def twin_nbody(
    position: loom.array(dtype=loom.vec3),
    velocity: loom.array(dtype=loom.vec3),
    mass: loom.array(dtype=float),
    dt: float,
    moved: loom.array(dtype=loom.vec3),
    speed: loom.array(dtype=loom.vec3),
):
    i = loom.tid()
    force = loom.vec3(0.0, 0.0, 0.0)
    for j in range(position.shape[0]):
        between = position[j] - position[i]
        square = loom.dot(between, between) + 0.01
        force += between * (mass[j] / (square * loom.sqrt(square)))
    moved[i] = position[i] + (velocity[i] + force * dt) * dt
    speed[i] = velocity[i] + force * dt


def test_matmul_is_its_twin():
    a, b = random(9, 17), random(17, 6)
    c = np.zeros((9, 6), np.float32)
    loom.launch(twin_matmul, (9, 6), [a, b, c])
    np.testing.assert_array_equal(example("matmul")(a, b, device="cpu"), c)


def test_black_scholes_is_its_twin():
    spot, strike, years = 50 + 50 * random(3, 40)
    years = years / 50
    call, put = same_on_simulator(example("black_scholes"), spot, strike, years, 0.05, 0.2)
    twins = np.zeros((2, 40), np.float32)
    loom.launch(twin_black_scholes, 40, [spot, strike, years, 0.05, 0.2, twins[0], twins[1]])
    np.testing.assert_array_equal([call, put], twins)


def test_nbody_is_its_twin():
    position, velocity = (loom.array(random(20, 3, seed=seed), dtype=loom.vec3) for seed in (1, 2))
    mass = loom.array(random(20), dtype=float)
    moved, speed = example("nbody")(position, velocity, mass, 0.1)
    twins = [loom.zeros(20, dtype=loom.vec3) for _ in range(2)]
    loom.launch(twin_nbody, 20, [position, velocity, mass, 0.1, *twins])
    np.testing.assert_array_equal(moved.numpy(), twins[0].numpy())
    np.testing.assert_array_equal(speed.numpy(), twins[1].numpy())


def test_examples_compute_what_they_say():
    x = random(6, 8)
    weights = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(
        same_on_simulator(example("softmax"), x), weights / weights.sum(1, keepdims=True), rtol=1e-5
    )
    q, k, v = random(5, 4), random(7, 4), random(7, 3)
    weights = np.exp(q.astype(np.float64) @ k.T)
    expected = weights / weights.sum(1, keepdims=True) @ v
    np.testing.assert_allclose(same_on_simulator(example("flash_attention"), q, k, v), expected, rtol=1e-5)
    image, window = random(9, 10), random(3, 2)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 2))
    np.testing.assert_allclose(
        same_on_simulator(example("conv2d"), image, window), (windows * window).sum((2, 3)), rtol=1e-5
    )
    blurred = same_on_simulator(example("blur"), image)
    inside = image[1:-1, :-2] + image[1:-1, 1:-1] + image[1:-1, 2:] + image[:-2, 1:-1] + image[2:, 1:-1]
    np.testing.assert_allclose(blurred[1:-1, 1:-1], inside / 5, rtol=1e-5)
    y = random(16)
    np.testing.assert_allclose(same_on_simulator(example("scan"), y, 4)[0], np.cumsum(y, dtype=np.float64), rtol=1e-5)
    np.testing.assert_array_equal(same_on_simulator(example("sort"), y), np.sort(y))
    re, im, *_ = same_on_simulator(example("fft"), y, random(16, seed=3), 4)
    np.testing.assert_allclose(re + 1j * im, np.fft.fft(y + 1j * random(16, seed=3)), rtol=1e-4, atol=1e-5)
    counts = same_on_simulator(example("histogram"), y, 4)
    np.testing.assert_array_equal(counts, np.histogram(y, 4, (0, 1))[0])
    steps = same_on_simulator(example("mandelbrot"), 12, 18, 30)
    assert steps.numpy().max() == 30 and steps.numpy().min() < 5
    left, filled = same_on_simulator(
        example("order_book"),
        np.array([1, 2, 3], np.float32),
        np.array([5, 5, 5], np.int32),
        np.array([2, 3], np.float32),
        np.array([7, 10], np.int32),
    )
    np.testing.assert_array_equal(filled, [7, 8])
    np.testing.assert_array_equal(left, [0, 0, 0])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.loom")), ids=lambda path: path.stem)
def test_examples_are_imported(path):
    module = loom.import_module(path)
    assert list(module)


def test_examples_of_the_guide_are_accepted():
    texts = re.findall(r"```loom\n(.*?)```", (FOLDER / "docs/guide/loom.md").read_text(), re.DOTALL)
    assert len(texts) >= 7
    for text in texts:
        loom.loom_module(text)
