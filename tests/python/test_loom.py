"""`.loom` files: modules, devices, shapes, gradients, and examples with their twins in Python."""

import subprocess
import sys
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


LIBRARY = """
struct Body { position: vec3, mass: f32 }

kernel dropped(n: i32, height: f32) -> bodies: array<Body, n>, ends: array<f32, 2> {
    for i in 0..n { bodies[i] = Body(vec3(0.0, height * f32(i), 0.0), 2.0) }
    ends[1] = height
}

kernel heavier(bodies: array<Body, n>, by: f32) -> total: array<f32, 1> {
    for i in 0..n { bodies[i].mass *= by }
    reduce for i in 0..n { total[0] += bodies[i].mass }
}
"""


def test_results_are_arrays_of_structs():
    module = loom.loom_module(LIBRARY)
    bodies, _ = module.dropped(3, 0.5, device="cpu")
    assert bodies.dtype is module.Body or bodies.dtype._type == module.Body._type
    np.testing.assert_array_equal(bodies.numpy()["position"][:, 1], [0, 0.5, 1])
    np.testing.assert_array_equal(module.heavier(bodies, 2.0, device="cpu").numpy(), [12])
    np.testing.assert_array_equal(bodies.numpy()["mass"], [4, 4, 4])


def command(*arguments, folder):
    done = subprocess.run([sys.executable, "-m", "polyloom", *arguments], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_command_line_runs_programs_over_arrays_of_structs(tmp_path):
    (tmp_path / "bodies.loom").write_text(LIBRARY)
    failed, text = command(
        "run", "bodies.loom", "--kernel", "dropped", "--arg", "n=3", "--arg", "height=0.5", folder=tmp_path
    )
    assert not failed and "bodies.mass: float32[3] 2 2 2\n" in text and "ends: float32[2] 0 0.5\n" in text, text
    assert "bodies.position: float32[3, 3] 0 0 0 0 …" in text, text
    arguments = ["--arg", "bodies.position=ones:4", "--arg", "bodies.mass=arange:4", "--arg", "by=2"]
    failed, text = command("run", "bodies.loom", "--kernel", "heavier", *arguments, folder=tmp_path)
    assert not failed and "total: float32[1] 12\n" in text and "bodies.mass: float32[4] 0 2 4 6\n" in text, text
    failed, text = command("run", "bodies.loom", "--kernel", "heavier", *arguments[2:], folder=tmp_path)
    assert failed and "parameter `bodies.position` has no value" in text, text
    wrong = ["--arg", "bodies.position=ones:3", *arguments[2:]]
    failed, text = command("run", "bodies.loom", "--kernel", "heavier", *wrong, folder=tmp_path)
    assert failed and "arrays of one shape" in text, text
    failed, text = command("run", "bodies.loom", "--kernel", "heavier", *arguments, "--arg", "z=1", folder=tmp_path)
    assert failed and "`heavier` has no parameter `z`" in text, text


FORMS = {
    "llvm": ["obj", "asm", "llvm"],
    "cranelift": ["obj", "asm"],
    "nvptx": ["ptx", "llvm"],
    "cuda": ["ptx", "cuda"],
}


@pytest.mark.parametrize("backend", FORMS)
def test_every_back_end_compiles_a_file(backend, tmp_path):
    (tmp_path / "scale.loom").write_text(
        "kernel scale(x: array<f32, n>, a: f32) -> y: array<f32, n> { for i in 0..n { y[i] = a * x[i] } }"
    )
    for form in FORMS[backend]:
        out = tmp_path / f"out.{form}"
        failed, text = command(
            "compile", "scale.loom", "--backend", backend, "--emit", form, "-o", str(out), folder=tmp_path
        )
        assert not failed and out.stat().st_size > 50, text
    missing = next(form for form in ("cpp", "hir", "ast") if form not in FORMS[backend])
    failed, text = command("compile", "scale.loom", "--backend", backend, "--emit", missing, folder=tmp_path)
    assert failed and f"--backend {backend} makes" in text, text
    assert command("check", "scale.loom", folder=tmp_path) == (0, "")


def test_sums_are_those_of_iterations_in_order():
    module = loom.loom_module(
        """
        kernel sums(x: array<f32, m, n>)
            -> rows: array<f32, m>, all: array<f32, 1>, product: array<f32, 1>, least: array<f32, n> {
            for j in 0..n { least[j] = x[0, j] }
            product[0] = 1.0
            reduce for i in 0..m, j in 0..n {
                rows[i] += x[i, j]
            }
            reduce for i in 0..m, j in 0..n { all[0] += x[i, j] }
            reduce for i in 0..m, j in 0..n { product[0] *= x[i, j] }
            reduce for i in 0..m, j in 0..n { least[j] = min(least[j], x[i, j]) }
        }
        """
    )
    x = random(7, 33)
    rows, total, product, least = same_on_simulator(module.sums, x)
    in_order = np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1]
    np.testing.assert_array_equal(rows, in_order)
    np.testing.assert_array_equal(total, np.add.accumulate(x.ravel(), dtype=np.float32)[-1:])
    np.testing.assert_array_equal(product, np.multiply.accumulate(x.ravel(), dtype=np.float32)[-1:])
    np.testing.assert_array_equal(least, x.min(0))


def test_loops_under_conditions_run_where_these_hold():
    module = loom.loom_module(
        """
        kernel scaled(x: array<f32, n>, a: f32) -> y: array<f32, n> {
            if a > 0.0 { for i in 0..n { y[i] = a * x[i] } } else if a < 0.0 {
                y[0] = 7.0
                for i in 1..n { y[i] = -x[i] }
            } else { for i in 0..n { y[i] = 9.0 } }
        }
        """
    )
    x = random(5)
    np.testing.assert_array_equal(same_on_simulator(module.scaled, x, 2.0), 2 * x)
    np.testing.assert_array_equal(same_on_simulator(module.scaled, x, -2.0), np.concatenate([[7], -x[1:]]))
    np.testing.assert_array_equal(same_on_simulator(module.scaled, x, 0.0), np.full(5, 9))


def test_gradients_of_an_example_are_those_of_its_twin():
    from loom_twins import conv2d

    image, window = conv2d.arguments(np.random.default_rng(1))
    program = example("conv2d")

    def gradients(launch):
        arrays = [loom.array(value, dtype=float, requires_grad=True) for value in (image, window)]
        y = loom.zeros((7, 9), dtype=float, requires_grad=True)
        with loom.Tape() as tape:
            launch(*arrays, y)
        y.grad = loom.array(np.ones((7, 9), np.float32), dtype=float)
        tape.backward()
        return [array.grad.numpy() for array in arrays]

    own = gradients(program.launch)
    twins = gradients(lambda *arrays: loom.launch(conv2d.conv2d, (7, 9), list(arrays)))
    for a, b in zip(own, twins, strict=True):
        np.testing.assert_array_equal(a, b)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (7, 9))
    np.testing.assert_allclose(own[1], windows.sum((2, 3)), rtol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "let r = x[i]; r[0] = 1.0",
        "let y = x; y[i, 0] = 1.0",
        "let r = if n > 1 then x[i] else x[i]; r[0] += 1.0",
        "let r = x[i]; put(r)",
        "let r = x[i]; atomic_add(r, 0, 1.0)",
    ],
)
def test_what_is_written_through_a_part_of_an_array_comes_back_from_a_device(body):
    text = f"""
fn put(r: array<f32, n>) {{ r[0] = 1.0 }}
kernel ones(x: array<f32, m, n>) {{ for i in 0..m {{ {body} }} }}
"""
    module = loom.loom_module(text)
    for device in ("cpu", "sim:0"):
        x = np.zeros((2, 3), np.float32)
        module.ones(x, device=device)
        assert x.tolist() == [[1, 0, 0], [1, 0, 0]], device


def test_a_function_returns_on_every_path():
    with pytest.raises(loom.CompileError, match="not every path through `f` returns a value"):
        loom.loom_module("fn f(x: f32) -> f32 { if x > 0.0 { return 1.0 } }")


def test_code_that_is_nested_too_deeply_is_the_one_error():
    text = "kernel k(m: i32) { for i in 0..m { " + "if m > 0 {" * 30_000 + "}" * 30_000 + "} }"
    with pytest.raises(loom.CompileError, match="the code is nested too deeply") as caught:
        loom.loom_module(text)
    assert "never closed" not in str(caught.value)
