"""The code of groups in all forms, their keys, and what `explain` says of their plans."""

import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from nvidia import ptxas
from tensor_arrays import numbers

FORMS = ["hir", "llvm_ir", "cpp", "cuda", "ptx", "asm"]

CHAIN = "def f(a, b):\n    return ops.relu(ops.add(a, b))\n"
# Two kernels: sums of long rows are combined in parts first.
LONG = "def f(a, b):\n    return ops.sum(ops.multiply(a, b))\n"

# The graphs whose code is assembled, with the shapes of their arguments.
GRAPHS = {
    "chain": ("ops.multiply(ops.relu(ops.add(a, b)), 2.0)", [(1000,), (1000,)]),
    "broadcast": ("ops.gelu(ops.add(ops.multiply(a, b), b))", [(64, 100), (100,)]),
    "softmax": ("ops.softmax(ops.add(a, b), axis=1)", [(50, 300), (300,)]),
    "log_softmax": ("ops.negative(ops.log_softmax(a, axis=0))", [(300, 50)]),
    "layer_norm": ("ops.relu(ops.layer_norm(a, b, b))", [(20, 700), (700,)]),
    "rms_norm": ("ops.relu(ops.rms_norm(a, b))", [(20, 700), (700,)]),
    "group_norm": ("ops.relu(ops.group_norm(a, b, b, groups=2))", [(3, 4, 50), (4,)]),
    "argmax": ("ops.argmax(ops.add(a, b), axis=1)", [(20, 500), (500,)]),
    "var": ("ops.sqrt(ops.var(a, axis=0))", [(500, 40)]),
    "sum": ("ops.sum(ops.multiply(a, b))", [(100_000,), (100_000,)]),
    "cumsum": ("ops.cumsum(ops.exp(a), axis=1)", [(30, 200)]),
    "views": ("ops.transpose(ops.add(ops.flip(a), ops.reshape(b, (20, 30))))", [(20, 30), (600,)]),
    "concat": ("ops.concat([ops.tanh(a), ops.pad(b, [(1, 0), (0, 2)])], axis=0)", [(5, 6), (3, 4)]),
    "cross_entropy": ("ops.cross_entropy(a, ops.cast(b, np.int64))", [(30, 100), (30,)]),
    "matmul": ("ops.relu(ops.matmul(a, b))", [(20, 30), (30, 40)]),
    "half": ("ops.softmax(ops.cast(a, np.float16), axis=1)", [(20, 300)]),
}


def fused(text, **options):
    return loom.fuse(loaded(text)["f"], **options)


def values_of(shapes):
    return [numbers(shape, np.float32, seed, 0.0, 4.0) for seed, shape in enumerate(shapes)]


def graph_function(name):
    expression, shapes = GRAPHS[name]
    parameters = ", ".join("ab"[: len(shapes)])
    return loom.fuse(loaded(f"def f({parameters}):\n    return {expression}\n", np=np)["f"]), values_of(shapes)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_of_values_or_of_the_last_call(form):
    f, a = fused(CHAIN), np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match="`f_0` has not been called.*annotate the parameters"):
        getattr(f.groups[0], form)()
    text = getattr(f.groups[0], form)(a, a)
    assert "add_maximum" in text and "kernel 1 of" not in text
    f.groups[0].cache_clear()
    assert np.array_equal(f(a, a), 2 * a)
    assert getattr(f.groups[0], form)() == text
    # Code has extents as parameters: that for other sizes is the same.
    assert getattr(f.groups[0], form)(np.ones((7, 9), np.float32), np.ones((7, 9), np.float32)) == text


def test_forms_have_the_options_that_kernels_have():
    f, a = fused(CHAIN), np.ones(5, np.float32)
    group = f.groups[0]
    assert ".target sm_90" in group.ptx(a, a, arch="sm_90")
    assert ".target sm_80" in group.ptx()
    assert ".version 8.3" in group.ptx(ptx_version="8.3")
    assert "nvptx64" in group.llvm_ir(arch="sm_80") and "nvptx64" not in group.llvm_ir()
    assert group.llvm_ir(optimized=False) != group.llvm_ir()
    assert group.hir(prepared=True) != group.hir()
    with pytest.raises(ValueError, match="sm_9000"):
        group.ptx(arch="sm_9000")
    with pytest.raises(TypeError, match="the group takes 2 values, not 1"):
        group.ptx(a)
    with pytest.raises(ValueError, match="`add`: `a` has shape"):
        group.ptx(a, np.ones(4, np.float32))


@pytest.mark.parametrize(("form", "comment"), [("hir", "//"), ("ptx", "//"), ("llvm_ir", ";"), ("asm", "#")])
def test_several_kernels_stand_under_comments(form, comment):
    f = fused(LONG)
    a = np.ones(100_000, np.float32)
    f(a, a)
    text = getattr(f.groups[0], form)()
    heads = [line for line in text.splitlines() if line.startswith(f"{comment} kernel ")]
    assert len(heads) >= 2
    assert heads[0].startswith(f"{comment} kernel 1 of {len(heads)}: multiply_sum")


def test_annotations_declare_what_code_is_of():
    text = 'def f(a: loom.Tensor[loom.float64, "n", 8], b: loom.Tensor[loom.float64, 8]):\n    return ops.add(a, b)\n'
    f = fused(text.replace("ops.add(a, b)", "ops.relu(ops.add(a, b))"))
    assert "f64" in f.groups[0].hir()
    assert len(f.groups[0].key) == 32
    # A name that is bound anew has not the declared type.
    g = fused(
        text.replace("    return", "    b = b * 2\n    return").replace("ops.add(a, b)", "ops.relu(ops.add(a, b))")
    )
    with pytest.raises(ValueError, match="has not been called"):
        g.groups[0].hir()


def test_a_group_with_a_kernel_has_its_code_too():
    @loom.op(shape="x")
    @loom.kernel
    def halved(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = 0.5 * x[i]

    group = loom._native.FusionGroup(
        "g", [("exp", [("in", 0)], {}), (halved, [("call", 0)], {}), ("relu", [("call", 1)], {})], [2]
    )
    a = np.ones(10, np.float32)
    with pytest.raises(TypeError, match="calls kernels of the program between its ops"):
        group.ptx(a)
    with pytest.raises(ValueError, match="has not been called"):
        group.ptx()
    group(a)
    heads = [line for line in group.ptx().splitlines() if line.startswith("// kernel ")]
    assert [head.rpartition(": ")[2] for head in heads] == ["exp", "halved", "maximum"]


def test_the_key_depends_on_calls_and_types_alone():
    a, b = np.ones((3, 4), np.float32), np.ones((30, 40), np.float32)
    f = fused(CHAIN)
    f(a, a)
    key = f.groups[0].key
    f(b, b)
    assert f.groups[0].key == key
    other = fused("def other(x, y):\n    z = ops.add(x, b=y)\n    return ops.relu(x=z)\n".replace("other", "f"))
    other(a, a)
    assert other.groups[0].key == key
    keys = {key}
    for values in [(a.astype(np.float64),) * 2, (a[0], a[0]), (a, 2.0), (a, 2)]:
        f(*values)
        keys.add(f.groups[0].key)
    for text in [CHAIN.replace("add", "multiply"), CHAIN.replace("(a, b)))", "(b, a)))")]:
        changed = fused(text)
        changed(a, a)
        keys.add(changed.groups[0].key)
    fast = fused(CHAIN, float_mode="fast")
    fast(a, a)
    keys.add(fast.groups[0].key)
    assert len(keys) == 7 or len(keys) == 8


def test_the_key_is_the_same_in_other_processes(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import numpy as np\nimport polyloom as loom\nfrom polyloom import ops\n\n\n@loom.fuse\ndef f(a, b):\n"
        "    return ops.sum(ops.relu(ops.add(a, b)), axis=1, keepdims=True)\n\n\n"
        "a = np.ones((3, 4), np.float32)\nf(a, a)\nprint(f.groups[0].name, f.groups[0].key)\n"
    )
    said = {subprocess.run([sys.executable, path], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(said) == 1 and said.pop().startswith("f_0 ")


def parts(text):
    """The code of each kernel."""
    lines, found = text.splitlines(keepends=True), [""]
    for line in lines:
        if line.startswith("// kernel "):
            found.append("")
        found[-1] += line
    return [part for part in found if part.strip()]


@pytest.mark.parametrize("name", GRAPHS)
def test_ptx_is_within_the_limits_of_gpus(name):
    f, values = graph_function(name)
    f(*values)
    assert f.groups, name
    for group in f.groups:
        for part in parts(group.ptx(arch="sm_80")):
            shared = [line for line in part.splitlines() if line.strip().startswith(".shared")]
            sizes = [int(line.rpartition("[")[2].partition("]")[0]) for line in shared]
            assert sum(sizes) <= 48 << 10
            assert len(part) < 1 << 20


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", GRAPHS)
def test_ptxas_takes_the_code_of_groups(name, arch, tmp_path):
    assembler = ptxas()
    f, values = graph_function(name)
    f(*values)
    for number, part in enumerate(part for group in f.groups for part in parts(group.ptx(arch=arch))):
        path = tmp_path / f"{number}.ptx"
        path.write_text(part)
        done = subprocess.run(
            [assembler, "-v", f"-arch={arch}", "-o", str(tmp_path / "out"), str(path)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr


def test_explain_with_arguments_shows_kernels_and_decisions():
    f = fused("def f(a, b):\n    return ops.softmax(ops.add(a, b), axis=1)\n")
    a = np.ones((50, 300), np.float32)
    assert "kernel 0" not in f.explain()
    text = f.explain(a, a)
    assert "group 0: 1 kernel, 180.0 kB moved; op by op" in text
    assert "    kernel 0: add_max_subtract_and_4_more, 50 blocks of 32 threads, moves 180.0 kB\n" in text
    assert "exp stored for several passes of kernel 0: 16 operations an element, a store and loads count 10" in text
    assert "together in kernel 0:" in text
    report = f.explain(a, a, json=True)
    assert report["plans"][0][0]["kernels"][0]["n_bytes"] == 180_000
    assert max(map(len, text.splitlines())) < 160


def test_explain_tells_why_kernels_are_apart():
    f = fused(LONG)
    a = np.ones(100_000, np.float32)
    assert "kernel 1 apart from kernel 0:" in f.explain(a, a)
    g = fused("def f(a, c):\n    if c:\n        return ops.relu(ops.tanh(a))\n    return ops.exp(ops.negative(a))\n")
    text = g.explain(a, True)
    assert "group 1 has not run with these arguments" in text
    assert "group 0: 1 kernel, 800.0 kB moved; op by op 1.6 MB" in text


def test_explain_tells_what_is_computed_by_several_kernels():
    cheap = fused("def f(a, b):\n    c = ops.add(a, b)\n    return ops.sum(c, axis=1), ops.cumsum(c, axis=1)\n")
    dear = fused("def f(a, b):\n    c = ops.erf(a)\n    return ops.sum(c, axis=1), ops.cumsum(c, axis=1)\n")
    a = np.ones((300, 400), np.float32)
    assert "add computed by each kernel: 1 operation an element, a store and loads count 16\n" in cheap.explain(a, a)
    assert "erf stored for several kernels: 30 operations an element, a store and loads count 16" in dear.explain(a, a)
    assert "but a scan, or a sum by indices, is a kernel of its own" in cheap.explain(a, a)
