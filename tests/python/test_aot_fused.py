"""Functions of tensors built ahead of time: `polyloom build --fuse`, called from C and from Python without Polyloom."""

import importlib.util
import json
import runpy
import shutil
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest

MODEL = """
import numpy as np
import polyloom as loom
from polyloom import ops


@loom.fuse
def bent(x, y):
    return ops.tanh(x * y + 0.5) - ops.relu(x)


@loom.fuse
def layer(x, scale, shift, weight, bias):
    return ops.gelu(ops.linear(ops.layer_norm(x, scale, shift), weight, bias))


@loom.fuse
def product(a, b):
    return ops.matmul(a, b)


@loom.fuse
def attended(q, k, v):
    return ops.attention(q, k, v, causal=True)


@loom.fuse
def filtered(image, kernel):
    return ops.relu(ops.conv2d(image, kernel, padding=1))


@loom.fuse
def summaries(x):
    return ops.mean(x, 0), ops.sum(x), ops.argmax(x, 1), x > 0.5


@loom.fuse
def turned(x):
    wide = ops.exp(x)
    return ops.transpose(wide), wide, ops.cumsum(wide, 1)


@loom.fuse
def scaled(x, gain, p):
    return {"y": x * gain * p["w"], "z": ops.softmax(x - p["b"])}


@loom.fuse
def halves(x, n):
    return ops.where(x > n, x // 2, x * n)


@loom.fuse(numpy=True)
def of_numpy(x):
    return np.exp(x) + np.sum(x, axis=1, keepdims=True)


@loom.fuse
def loss(w, x, y):
    return ops.mean(ops.square(ops.tanh(ops.matmul(x, w)) - y))


def plain(x):
    # An `if` on a shape is decided for each extent.
    if x.shape[0] > 5:
        return ops.softmax(x)
    return ops.sum(ops.exp(x), 1, keepdims=True)


@loom.fuse
def picked(x, at):
    return ops.take(x, at, 0)


@loom.fuse
def decides(x):
    y = ops.exp(x)
    if float(ops.sum(y)) > 0.0:
        y = y * 2.0
    return y


TABLE = np.ones(3, np.float32)


@loom.fuse
def reads(x):
    return x * TABLE


@loom.fuse
def foreign(x):
    return ops.exp(np.fft.fft(x))


@loom.fuse
def same(x):
    return x, ops.exp(x)


@loom.fuse
def talks(x):
    return ops.exp(x), "done"
"""


def build(folder, *options, name="shipped", succeeds=True):
    """Builds functions of MODEL, for this machine's processor unless options say otherwise."""
    source = folder / "model.py"
    if not source.exists():
        source.write_text(MODEL)
    given = [] if "--cpu" in options else ["--cpu", "native"]
    command = [sys.executable, "-m", "polyloom", "build", source, "-o", folder / name, *given, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode == 0) == succeeds, done.stderr
    return done.stderr


def library(folder, name="shipped"):
    """The Python module of a library, loaded here."""
    spec = importlib.util.spec_from_file_location(f"{name}_{folder.name}", folder / name / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(seed, *shape, dtype=np.float32):
    made = np.random.default_rng(seed).standard_normal(shape)
    return (made * 3).astype(dtype)


def same_bits(given, expected):
    expected = np.asarray(expected)
    assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(given.view(np.uint8), np.ascontiguousarray(expected).view(np.uint8))


def run(function, inputs, *results):
    """Calls a function of a library with new arrays for its results, which it gives."""
    outputs = [np.zeros(each.shape, each.dtype) for each in results]
    given = function(*inputs, *outputs)
    return outputs, given


BENT_IN_C = """
#include "shipped.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    float x[3 * 5], y[5], out[3 * 5], other[3 * 10];
    for (int i = 0; i < 15; i++) x[i] = 0.375f * (float)i - 2.5f;
    for (int i = 0; i < 5; i++) y[i] = 0.25f * (float)i - 0.5f;
    struct polyloom_array2 xs = {x, {3, 5}, {20, 4}}, outs = {out, {3, 5}, {20, 4}};
    struct polyloom_array1 ys = {y, {5}, {4}};
    if (bent(&xs, &ys, &outs) != 0) return 1;
    for (int i = 0; i < 15; i++) { uint32_t bits; memcpy(&bits, &out[i], 4); printf("%08" PRIx32 "\\n", bits); }
    struct polyloom_array2 gaps = {other, {3, 5}, {40, 4}};
    printf("%s\\n", bent_site(bent(&gaps, &ys, &outs)));
    printf("%s\\n", bent_site(bent(&xs, &ys, &xs)));
    return 0;
}
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A library of the functions, each for one shape; and the module that they are of."""
    folder = tmp_path_factory.mktemp("fused")
    shapes = ["x=7x24", "scale=24", "shift=24", "weight=40x24", "bias=40", "image=2x3x9x8", "kernel=5x3x3x3"]
    shapes += ["q=2x33x16", "k=2x33x16", "v=2x33x8", "a=130x67", "b=67x70", "gain=", "p.w=24", "p.b=7x1"]
    names = "layer,product,attended,filtered,summaries,turned,scaled,of_numpy"
    build(folder, "--fuse", names, "--shape", *shapes)
    return library(folder), runpy.run_path(str(folder / "model.py"))


def test_one_group_is_called_through_the_header(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    build(tmp_path, "--fuse", "bent", "--shape", "x=3x5", "--shape", "y=5", "--no-shared")
    (tmp_path / "main.c").write_text(BENT_IN_C)
    folder = tmp_path / "shipped"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    made = subprocess.run(
        ["cc", *flags, tmp_path / "main.c", folder / "libshipped.a", "-lm", "-o", tmp_path / "main"],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    x = (np.float32(0.375) * np.arange(15, dtype=np.float32) - np.float32(2.5)).reshape(3, 5)
    y = np.float32(0.25) * np.arange(5, dtype=np.float32) - np.float32(0.5)
    bent = runpy.run_path(str(tmp_path / "model.py"))["bent"]
    assert [int(line, 16) for line in lines[:15]] == bent(x, y).ravel().view(np.uint32).tolist()
    assert lines[15] == "`x` of `bent` has the shape (3, 5) and no gaps between its elements"
    assert lines[16] == "`out` of `bent` is written, and shares no memory with another argument"


def test_several_kernels_with_a_workspace_have_the_bits_of_the_fused_function(shipped):
    module, model = shipped
    given = [numbers(0, 7, 24), numbers(1, 24), numbers(2, 24), numbers(3, 40, 24), numbers(4, 40)]
    expected = model["layer"](*given)
    (out,), _ = run(module.layer, given, expected)
    same_bits(out, expected)
    # A workspace of the caller's may lie anywhere and hold anything.
    memory = np.full(1 << 16, 0xFF, np.uint8)[3:]
    again = np.zeros_like(out)
    module.layer(*given, again, workspace=memory)
    same_bits(again, expected)


@pytest.mark.parametrize("name", ["product", "attended", "filtered", "of_numpy"])
def test_products_attention_and_convolutions(shipped, name):
    module, model = shipped
    given = {
        "product": [numbers(0, 130, 67), numbers(1, 67, 70)],
        "attended": [numbers(0, 2, 33, 16), numbers(1, 2, 33, 16), numbers(2, 2, 33, 8)],
        "filtered": [numbers(0, 2, 3, 9, 8), numbers(1, 5, 3, 3, 3)],
        "of_numpy": [numbers(0, 7, 24)],
    }[name]
    expected = model[name](*given)
    (out,), _ = run(getattr(module, name), given, expected)
    same_bits(out, expected)


def test_results_of_any_number_type_and_rank(shipped):
    module, model = shipped
    x = numbers(0, 7, 24)
    mean, total, largest, above = model["summaries"](x)
    outputs, given = run(module.summaries, [x], mean, largest, above)
    for out, expected in zip(outputs, (mean, largest, above), strict=True):
        same_bits(out, expected)
    # A result without axes is given back.
    assert np.float32(given).view(np.uint32) == np.float32(total).view(np.uint32)


def test_results_that_are_views_of_each_other_are_copied(shipped):
    module, model = shipped
    x = numbers(0, 7, 24)
    expected = model["turned"](x)
    outputs, _ = run(module.turned, [x], *[np.ascontiguousarray(each) for each in expected])
    for out, each in zip(outputs, expected, strict=True):
        same_bits(out, each)


def test_dictionaries_and_numbers(shipped):
    module, model = shipped
    x, w, b, gain = numbers(0, 7, 24), numbers(1, 24), numbers(2, 7, 1), np.float32(0.3)
    expected = model["scaled"](x, np.asarray(gain), {"w": w, "b": b})
    # The entries of a dictionary come in the order of their names.
    outputs, _ = run(module.scaled, [x, float(gain), b, w], expected["y"], expected["z"])
    same_bits(outputs[0], expected["y"])
    same_bits(outputs[1], expected["z"])


def test_integers_and_fixed_numbers(tmp_path):
    build(tmp_path, "--fuse", "halves", "--shape", "x=11", "--dtype", "x=int16", "--number", "n=3")
    module, model = library(tmp_path), runpy.run_path(str(tmp_path / "model.py"))
    x = np.arange(-5, 6, dtype=np.int16)
    expected = model["halves"](x, 3)
    (out,), _ = run(module.halves, [x], expected)
    same_bits(out, expected)


def test_the_manifest_has_shapes(tmp_path):
    build(tmp_path, "--fuse", "layer", "--no-shared", "--shape", "x=4x6", "scale=6", "shift=6", "weight=3x6", "bias=3")
    (entry,) = json.loads((tmp_path / "shipped" / "shipped.json").read_text())["entries"]
    assert (entry["kind"], entry["returns"], entry["launch_rank"]) == ("fused", "status", 0)
    found = {
        each["name"]: (each["kind"], each["dtype"], each["shape"], each["written"]) for each in entry["parameters"]
    }
    assert found["x"] == ("array", "float32", [4, 6], False)
    assert found["out"] == ("array", "float32", [4, 3], True)
    assert found["workspace"][0] == "workspace"
    assert "`x` of `layer` has the shape (4, 6) and no gaps between its elements" in entry["checks"]


def test_value_and_gradients_have_the_bits_of_the_package(tmp_path):
    shapes = ["w=9x4", "x=13x9", "y=13x4", "scale=9", "shift=9", "weight=6x9", "bias=6"]
    build(tmp_path, "--fuse", "loss,layer", "--direction", "both", "--wrt", "w,x,weight", "--shape", *shapes)
    module, model = library(tmp_path), runpy.run_path(str(tmp_path / "model.py"))
    w, x, y = numbers(0, 9, 4), numbers(1, 13, 9), numbers(2, 13, 4)
    value, (by_w, by_x) = loom.value_and_grad(model["loss"], argnums=(0, 1))(w, x, y)
    outputs, given = run(module.loss_value_and_grad, [w, x, y], by_w, by_x)
    assert np.float32(given).view(np.uint32) == np.float32(value).view(np.uint32)
    same_bits(outputs[0], by_w)
    same_bits(outputs[1], by_x)
    assert np.float32(module.loss(w, x, y)) == np.float32(value)
    # By central differences, in double precision.
    wide = [each.astype(np.float64) for each in (w, x, y)]
    nudge = np.zeros((9, 4))
    nudge[2, 1] = 1e-6
    ends = [np.mean((np.tanh(wide[1] @ (wide[0] + sign * nudge)) - wide[2]) ** 2) for sign in (1, -1)]
    assert abs(outputs[0][2, 1] - (ends[0] - ends[1]) / 2e-6) < 1e-4
    # Of a function that gives an array, cotangents are carried back.
    rest = [numbers(3, 9), numbers(4, 9), numbers(5, 6, 9), numbers(6, 6)]
    result, pullback = loom.vjp(model["layer"], x, *rest)
    seed = numbers(7, 13, 6)
    carried = pullback(seed)
    outputs, _ = run(module.layer_vjp, [x, *rest, seed], carried[0], carried[3])
    same_bits(outputs[0], carried[0])
    same_bits(outputs[1], carried[3])


def test_an_extent_of_the_callers(tmp_path):
    shapes = ["a=Nx20", "b=20x9"]
    build(tmp_path, "--fuse", "product", "--shape", *shapes, "--extent", "N=1..40")
    module, model = library(tmp_path), runpy.run_path(str(tmp_path / "model.py"))
    b = numbers(1, 20, 9)
    for n in range(1, 41):
        a = numbers(n, n, 20)
        expected = model["product"](a, b)
        (out,), _ = run(module.product, [a, b], expected)
        same_bits(out, expected)
    with pytest.raises(module.CheckError, match="the extent N of `product` is from 1 to 40"):
        module.product(numbers(0, 41, 20), b, np.zeros((41, 9), np.float32))
    with pytest.raises(module.CheckError, match=r"`out` of `product` has the shape \(N, 9\)"):
        module.product(numbers(0, 7, 20), b, np.zeros((8, 9), np.float32))


def test_what_depends_on_an_extent_is_decided_for_each(tmp_path):
    build(tmp_path, "--fuse", "plain", "--shape", "x=Nx6", "--extent", "N=6..24")
    module, model = library(tmp_path), runpy.run_path(str(tmp_path / "model.py"))
    for n in (6, 7, 24):
        x = numbers(n, n, 6)
        expected = model["plain"](x)
        (out,), _ = run(module.plain, [x], expected)
        same_bits(out, expected)
    said = build(tmp_path, "--fuse", "plain", "--shape", "x=Nx6", "--extent", "N=4..8", succeeds=False)
    assert "the extent of axis 1 of `out` does not grow evenly with the extent that callers choose" in said


def test_a_recipe_is_replayed(tmp_path):
    source = tmp_path / "model.py"
    source.write_text(MODEL)
    shapes = ["x=4x6", "scale=6", "shift=6", "weight=3x6", "bias=3"]
    explain = [sys.executable, "-m", "polyloom", "plan", "explain", f"{source}:layer", "--shape", *shapes, "--json"]
    done = subprocess.run(explain, capture_output=True, text=True, check=True)
    (group,) = json.loads(done.stdout)["groups"]
    # The recipe of the plan by itself, with each op as a plan of its own.
    recipe = json.loads(next(each["recipe"] for each in group["candidates"] if each["is_default"]))
    (whole,) = recipe["steps"]
    recipe["steps"] = [{**whole, "nodes": [node]} for node in whole["nodes"]]
    assert len(recipe["steps"]) == 3
    (tmp_path / "apart.json").write_text(json.dumps(recipe))
    build(tmp_path, "--fuse", "layer", "--shape", *shapes, "--recipe", str(tmp_path / "apart.json"))
    given = [numbers(0, 4, 6), numbers(1, 6), numbers(2, 6), numbers(3, 3, 6), numbers(4, 3)]
    expected = runpy.run_path(str(source))["layer"](*given)
    (out,), _ = run(library(tmp_path).layer, given, expected)
    same_bits(out, expected)
    # Each of layer_norm, linear and gelu has kernels of its own.
    listed = subprocess.run(["nm", tmp_path / "shipped" / "libshipped.a"], capture_output=True, text=True).stdout
    assert sum(f" T layer.k{n}\n" in listed for n in range(99)) >= 3
    mixed = [each for each in group["candidates"] if "CPU_NUMPY" in each["backends"]]
    (tmp_path / "mixed.json").write_text(mixed[0]["recipe"])
    said = build(
        tmp_path, "--fuse", "layer", "--shape", *shapes, "--recipe", str(tmp_path / "mixed.json"), succeeds=False
    )
    assert "`layer` cannot be in a library: its recipe runs on CPU_NUMPY" in said
    said = build(
        tmp_path, "--fuse", "bent", "--shape", "x=4", "y=4", "--recipe", str(tmp_path / "apart.json"), succeeds=False
    )
    assert "apart.json is of another graph than that of `bent`" in said


def test_a_measured_path_is_found_in_the_database(tmp_path):
    source, database = tmp_path / "model.py", str(tmp_path / "paths.sqlite")
    source.write_text(MODEL)
    shapes = ["q=1x8x4", "k=1x8x4", "v=1x8x4"]
    options = ["--fuse", "attended", "--shape", *shapes, "--planned", "--database", database]
    said = build(tmp_path, *options, succeeds=False)
    assert "nothing is measured of `attended` for these shapes" in said
    explain = [sys.executable, "-m", "polyloom", "plan", "explain", f"{source}:attended", "--shape", *shapes]
    explain += ["--measure", "--budget", "8", "--backend", "CPU_NATIVE", "--limit", "2", "--database", database]
    subprocess.run(explain, capture_output=True, text=True, check=True)
    build(tmp_path, *options)
    given = [numbers(0, 1, 8, 4), numbers(1, 1, 8, 4), numbers(2, 1, 8, 4)]
    expected = runpy.run_path(str(source))["attended"](*given)
    (out,), _ = run(library(tmp_path).attended, given, expected)
    same_bits(out, expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["decides", "--shape", "x=3"], ["float(ops.sum(y)) > 0.0", "model.py:"]),
        (["foreign", "--shape", "x=3"], ["np.fft.fft", "model.py:"]),
        (["reads", "--shape", "x=3"], ["reads an array float32[3] that is none of its arguments"]),
        (["same", "--shape", "x=3"], ["one of its results is an argument as it is"]),
        (["talks", "--shape", "x=3"], ["its result[1] is str"]),
        (["bent", "--shape", "x=3"], ["`y` of `bent` has no value"]),
        (["bent", "--shape", "x=3", "y=5"], ["model.py:", "cannot be built"]),
        (["bent", "--shape", "x=Nx3", "y=3"], ["give the values of `N`, as --extent N=1..64"]),
        (["bent", "--shape", "x=3", "y=3", "z=3"], ["no function that is built has a parameter `z`"]),
        (["nothing", "--shape", "x=3"], ["no file has a function `nothing`"]),
        (["bent", "--shape", "x=3", "y=3", "--extent", "M=1..4"], ["no --shape has an extent `M`"]),
        (["bent", "--shape", "x=3", "y=3", "--direction", "both", "--wrt", "q"], ["no function that is built"]),
        (["halves", "--shape", "x=3", "n=", "--dtype", "x=int32", "n=int32", "--direction", "both"], ["no gradient"]),
    ],
)
def test_what_is_no_function_of_ops_is_refused_by_name(tmp_path, options, said):
    message = build(tmp_path, "--fuse", *options, "--no-shared", succeeds=False)
    for each in said:
        assert each in message


def test_options_of_functions_need_one(tmp_path):
    message = build(tmp_path, "--shape", "x=3", succeeds=False)
    assert "which --fuse names" in message


def test_every_kind_of_processor_has_the_same_bits(tmp_path):
    given = [numbers(0, 33, 20), numbers(1, 20, 18)]
    outputs = []
    for cpu in ("baseline", "avx2", "baseline,avx2"):
        build(tmp_path, "--fuse", "product", "--shape", "a=33x20", "b=20x18", "--cpu", cpu, name=f"p{len(outputs)}")
        module = library(tmp_path, f"p{len(outputs)}")
        (out,), _ = run(module.product, given, np.zeros((33, 18), np.float32))
        outputs.append(out)
    expected = runpy.run_path(str(tmp_path / "model.py"))["product"](*given)
    for out in outputs:
        same_bits(out, expected)
