"""A library built ahead of time, used by programs in C, C++, Rust and Python: `examples/aot`."""

import json
import pathlib
import runpy
import shutil
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "aot"


def test_four_languages_print_the_same_bits(tmp_path):
    for tool in ["bash", "cc", "c++", "cargo"]:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    command = [EXAMPLE / "run.sh", sys.executable, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("==> all four print the same bits\n")
    assert "gather refused" in done.stdout


def test_the_loader_is_small_and_needs_no_polyloom(tmp_path):
    build = [sys.executable, "-m", "polyloom", "build", EXAMPLE / "kernels.py", "-o", tmp_path / "small"]
    subprocess.run([*build, "--kernel", "scale_add"], check=True)
    assert (tmp_path / "small" / "small.py").stat().st_size < 6000
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'small')!r})\n"
        "import numpy as np, small\n"
        "x, y = np.ones(3, np.float32), np.zeros(6, np.float32)\n"
        "small.scale_add(3, 2.0, x, y[::2])\n"
        "assert y.tolist() == [2, 0, 2, 0, 2, 0], y\n"
        "assert 'polyloom' not in sys.modules\n"
        "try: small.scale_add(3, 2.0, x.astype(float), y[::2])\n"
        "except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "x must be a NumPy array of float32, not float64\n"


CURVE = """
import polyloom as loom


@loom.kernel
def curve(a: loom.float64, x: loom.array(dtype=loom.float64), y: loom.array(dtype=loom.float64)):
    i = loom.tid()
    y[i] = loom.sin(a * x[i]) + x[i] * x[(i + 1) % x.shape[0]]
"""

CURVE_IN_C = """
#include "curves.h"
#include <stdio.h>

int main(void) {
    double x[7], y[7] = {0}, adj_x[7] = {0}, adj_y[7], adj_a[1] = {0};
    for (int i = 0; i < 7; i++) { x[i] = 0.25 * i - 0.6; adj_y[i] = 1.0 + 0.125 * i; }
    struct polyloom_array1 xs = {x, {7}, {8}}, ys = {y, {7}, {8}}, adj_xs = {adj_x, {7}, {8}};
    struct polyloom_array1 adj_ys = {adj_y, {7}, {8}}, adj_as = {adj_a, {1}, {8}};
    (void)adj_as;
    if (curve(7, 1.5, &xs, &ys) != 0) return 1;
    if (curve_backward(ARGUMENTS) != 0) return 2;
    for (int i = 0; i < 7; i++) printf("%.17g %.17g\\n", y[i], adj_x[i]);
    return 0;
}
"""


@pytest.mark.parametrize("flags", [[], ["-fsanitize=address,undefined", "-static-libasan"]])
def test_a_backward_entry_called_from_c_gives_the_bits_of_a_tape(tmp_path, flags):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source = tmp_path / "curve.py"
    source.write_text(CURVE)
    build = [sys.executable, "-m", "polyloom", "build", source, "-o", tmp_path / "curves", "--direction", "both"]
    subprocess.run([*build, "--no-shared"], check=True)
    manifest = json.loads((tmp_path / "curves" / "curves.json").read_text())
    forward, backward = manifest["entries"]
    assert (forward["kind"], backward["kind"], backward["name"]) == ("kernel", "backward", "curve_backward")
    names = [parameter["name"] for parameter in backward["parameters"]]
    assert names[: len(forward["parameters"])] == [parameter["name"] for parameter in forward["parameters"]]
    values = {
        "dim0": "7",
        "a": "1.5",
        "x": "&xs",
        "y": "&ys",
        "adj_a": "&adj_as",
        "adj_x": "&adj_xs",
        "adj_y": "&adj_ys",
    }
    program = tmp_path / "main.c"
    program.write_text(CURVE_IN_C.replace("ARGUMENTS", ", ".join(values[name] for name in names)))
    command = [
        "cc",
        "-std=c99",
        "-Wall",
        "-Werror",
        *flags,
        f"-I{tmp_path / 'curves'}",
        program,
        "-o",
        tmp_path / "main",
    ]
    made = subprocess.run([*command, tmp_path / "curves" / "libcurves.a", "-lm"], capture_output=True, text=True)
    if made.returncode != 0 and flags:
        pytest.skip("the C compiler has no sanitizers")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    y, adjoint = np.array([line.split() for line in done.stdout.splitlines()], float).T
    x = 0.25 * np.arange(7) - 0.6
    curve = runpy.run_path(str(source))["curve"]
    given, result = loom.array(x, requires_grad=True), loom.zeros(7, dtype=loom.float64, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(curve, 7, [1.5, given, result])
    tape.backward(grads={result: loom.array(1.0 + 0.125 * np.arange(7))})
    np.testing.assert_array_equal(y, result.numpy())
    np.testing.assert_array_equal(adjoint, given.grad.numpy())
    # By hand: the cosine of its own element, and what the element is a factor of in its own product and the one before.
    seed = 1.0 + 0.125 * np.arange(7)
    by_hand = seed * (1.5 * np.cos(1.5 * x) + np.roll(x, -1)) + np.roll(seed * x, 1)
    np.testing.assert_allclose(adjoint, by_hand, rtol=1e-14)
