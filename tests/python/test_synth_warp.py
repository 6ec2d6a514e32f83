"""Generated kernels in Warp: it compiles them, and leaves what Polyloom leaves."""

import gc
import json
import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import polyloom as loom
import pytest
from polyloom import _synth_warp, synth

wp = pytest.importorskip("warp", reason="Warp is not installed (PyPI: warp-lang)")

EXTENTS = [7, 5, 3, 2]
N_ROWS = 170


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows of all categories whose file imports Warp, with Warp's code."""
    folder = tmp_path_factory.mktemp("warp") / "set"
    columns = ["id", "kernel_name", "category", "python_source", "metadata"]
    synth.produce(N_ROWS, folder, seed=17, verify="run", columns=columns, emitter="warp")
    lines = [line for file in sorted((folder / "data").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_rows_have_warps_own_code(rows):
    shared = [row for row in rows if "import warp as wp" in row["python_source"]]
    assert len(shared) >= N_ROWS / 2
    for row in shared:
        for column in ("warp_cuda", "warp_cpp"):
            assert f"void {row['kernel_name']}_" in row[column] and "adj" in row[column]
        assert "__global__" in row["warp_cuda"] and "__global__" not in row["warp_cpp"]
    for row in rows:
        if "import warp as wp" not in row["python_source"]:
            assert row["warp_cuda"] is None and row["warp_cpp"] is None


def test_the_emitter_gives_the_same_as_the_rows(rows):
    made = synth.generate_kernel("arithmetic", 3)
    code = synth.extract_ir(made, device="cuda", emitter="warp")
    assert list(code) == ["kernel_name", "python_source", "metadata", "warp_cuda"]
    assert code["metadata"]["device"] == "cuda"
    assert f"void {made.name}_cuda_kernel_backward(" in code["warp_cuda"]
    assert synth.extract_ir(made, emitter="warp") == synth.extract_ir(made, emitter="warp")


PLAIN = """import warp{alias}

@{module}.kernel
def plain(x: {module}.array(dtype=float)):
    i = {module}.tid()
    x[i] = {module}.{function}(x[i])
"""


def test_files_may_import_warp_by_any_name():
    for alias, module in (("", "warp"), (" as wp", "wp"), (" as w", "w")):
        source = PLAIN.format(alias=alias, module=module, function="sin")
        made = synth.SynthesisedKernel("plain", "math", source, 0, 0)
        assert "void plain_cuda_kernel_backward(" in synth.extract_ir(made, emitter="warp")["warp_cuda"]
        assert _synth_warp.emit("plain", source) is not None


def test_settings_of_warp_change_nothing_in_its_code(monkeypatch):
    source = PLAIN.format(alias=" as wp", module="wp", function="sin")
    before = [_synth_warp.text("plain", source, device) for device in ("cuda", "cpu")]
    for setting, value in {
        "mode": "debug",
        "lineinfo": True,
        "enable_backward": False,
        "max_unroll": 0,
        "deterministic": wp.DeterministicMode.GPU_TO_GPU,
        "verify_fp": True,
        "default_grid_stride": False,
    }.items():
        monkeypatch.setattr(wp.config, setting, value)
    assert [_synth_warp.text("plain", source, device) for device in ("cuda", "cpu")] == before
    options = "wp.set_module_options({'enable_backward': False})"
    own = source.replace("import warp as wp\n", f"import warp as wp\n{options}\n")
    assert "plain_cuda_kernel_backward(" not in _synth_warp.text("plain", own, "cuda")


def test_what_warp_does_not_take_has_no_code():
    source = PLAIN.format(alias=" as wp", module="wp", function="no_such_function")
    assert _synth_warp.emit("plain", source) is None
    ours = source.replace("import warp as wp", "import polyloom as wp  # in place of: import warp as wp")
    assert _synth_warp.emit("plain", ours) is None
    with pytest.raises(ValueError, match="does not import `warp`"):
        _synth_warp.text("plain", ours, "cuda")


def test_a_warp_that_has_changed_is_an_error(tmp_path, monkeypatch):
    from warp._src import context

    _synth_warp.check.cache_clear()
    monkeypatch.delattr(context, "ModuleBuilder")
    with pytest.raises(RuntimeError, match="the code generator of Warp .*'ModuleBuilder'"):
        _synth_warp.emit("plain", PLAIN.format(alias=" as wp", module="wp", function="sin"))
    with pytest.raises(RuntimeError, match="the code generator of Warp"):
        synth.produce(10, tmp_path / "set", verify="parse", emitter="warp")
    assert not (tmp_path / "set").exists()


def test_nothing_is_kept_of_a_kernel_in_warp():
    from warp._src import context

    def kept() -> tuple[int, int, int]:
        gc.collect()
        found = Counter(type(value) for value in gc.get_objects())
        return len(context.user_modules), found[context.Module], found[context.Kernel]

    # Functions of Warp's own that are written in Python, by which modules know of each other, are in some.
    made = [synth.generate_kernel(category, seed) for category in ("vector", "struct", "function") for seed in range(6)]
    counts = []
    for _ in range(3):
        for kernel in made:
            _synth_warp.emit(kernel.name, kernel.source)
        counts.append(kept())
    assert counts[0] == counts[1] == counts[2]


def test_files_of_others_are_not_run(tmp_path):
    ran = tmp_path / "ran"
    source = PLAIN.format(alias=" as wp", module="wp", function="sin") + f"open({str(ran)!r}, 'w').close()\n"
    (tmp_path / "theirs.py").write_text(source)
    with pytest.raises(ValueError, match="of a `source` nothing is run but the kernels"):
        synth.produce(None, tmp_path / "set", source=tmp_path / "theirs.py", emitter="warp")
    assert not (tmp_path / "set").exists() and not ran.exists()


def validated(folder, **environment):
    command = [sys.executable, "-m", "polyloom", "dataset", "validate", "--input", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    return done.returncode, done.stdout


def change(path, edit):
    text = path.read_text()
    assert edit(text) != text
    path.write_text(edit(text))


def test_validation_makes_warps_columns_again(tmp_path):
    folder = tmp_path / "set"
    columns = ["id", "kernel_name", "category", "python_source", "device", "metadata"]
    synth.produce(12, folder, seed=3, verify="parse", columns=columns, categories=["vector"], emitter="warp")
    status, report = validated(folder)
    assert status == 0 and "not checked" not in report

    (tmp_path / "none" / "warp").mkdir(parents=True)
    (tmp_path / "none" / "warp" / "__init__.py").write_text("raise ImportError\n")
    path = os.pathsep.join([str(tmp_path / "none"), os.environ.get("PYTHONPATH", "")])
    status, report = validated(folder, PYTHONPATH=path)
    assert status == 0
    assert report.splitlines()[-1].startswith("Warp's columns were not checked: emitter='warp' needs Warp")

    manifest = folder / "manifest.json"
    version = json.loads(manifest.read_text())["settings"]["tools"]["warp"]
    assert version == wp.__version__
    change(manifest, lambda text: text.replace(f'"warp": "{version}"', '"warp": "0.0.1"'))
    status, report = validated(folder)
    assert status == 0 and f"they were made with Warp 0.0.1, and this is Warp {version}" in report
    change(manifest, lambda text: text.replace('"warp": "0.0.1"', f'"warp": "{version}"'))

    # What somebody has put into a row is found, and not run.
    file = next((folder / "data").glob("train-*.jsonl"))
    change(file, lambda text: text.replace("adj_", "ajd_", 1))
    status, report = validated(folder)
    assert status == 1 and re.search(r"warp_(cuda|cpp), line \d+: .*ajd_", report)
    ran = tmp_path / "ran"
    line = json.dumps(f"open({str(ran)!r}, 'w').close()\nimport warp as wp\n")[1:-1]
    change(file, lambda text: text.replace("import warp as wp\\n", line))
    status, report = validated(folder)
    assert status == 1 and "is not what seed 3" in report and not ran.exists()


def extent(text: str) -> int:
    return EXTENTS[int(text[1:])] if text.startswith("n") else int(text)


def numbers(dtype: str) -> tuple[type, tuple[int, ...]]:
    """NumPy's type and the extents of an element."""
    plain = {"int": np.int32, "float": np.float32, "bool": np.bool_}
    if dtype in plain or hasattr(np, dtype):
        return plain.get(dtype) or getattr(np, dtype), ()
    for name, numbers_of_it in {"spatial_vector": "vec6", "spatial_matrix": "mat66", "transform": "vec7"}.items():
        dtype = re.sub(f"^{name}", numbers_of_it, dtype)
    found = re.fullmatch(r"(vec|mat|quat)(\d*)([a-z]*)", dtype)
    assert found, dtype
    scalar = {"": np.float32, "f": np.float32, "d": np.float64, "h": np.float16, "i": np.int32, "u": np.uint32}
    return scalar[found[3]], (4,) if found[1] == "quat" else tuple(map(int, found[2]))


def draw(random: np.random.Generator, given: dict) -> np.ndarray:
    scalar, inner = numbers(given["dtype"])
    shape, values = tuple(map(extent, given["shape"])) + inner, given["values"]
    if values["kind"] == "zeros":
        return np.zeros(shape, scalar)
    if values["kind"] == "unit":
        drawn = random.standard_normal(shape)
        return (drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).astype(scalar)
    if np.issubdtype(scalar, np.floating):
        return random.uniform(values["low"], values["high"], shape).astype(scalar)
    return random.integers(int(values["low"]), int(values["high"]) + 1, shape).astype(scalar)


def kernel_in(package, row, folder):
    """The row's kernel, defined with this package in place of the one that its file imports."""
    name = f"synth_{package.__name__}_{row['metadata']['index']}"
    text = row["python_source"].replace("import warp as wp", f"import {package.__name__} as wp", 1)
    path = folder / f"{name}.py"
    path.write_text(text)
    module = type(json)(name)
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), module.__dict__)
    if package is wp:
        wp.set_module_options({"enable_backward": False}, module)
    return getattr(module, row["kernel_name"])


def composite(package, dtype: str, components: list):
    if dtype == "transform":
        return package.transform(package.vec3(*components[:3]), package.quat(*components[3:]))
    return getattr(package, dtype)(*components)


def agrees(ours: np.ndarray, theirs: np.ndarray) -> bool:
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64).reshape(ours.shape)
    off = ~(np.abs(ours - theirs) <= 1e-3 * np.abs(theirs) + 1e-4)
    # Where functions differ in their last bits, a comparison or a conversion to an integer may tip.
    return bool(off.mean() <= 0.03)


def test_warp_compiles_them_and_agrees(rows, tmp_path):
    wp.config.quiet = True
    counts: Counter[str] = Counter()
    wrong = []
    for row in rows:
        inputs = row["metadata"]["inputs"]
        # Structs are compared with Warp's in test_structs_against_warp.py.
        if "import warp as wp" not in row["python_source"] or any("." in given["name"] for given in inputs):
            continue
        random = np.random.default_rng(row["metadata"]["index"])
        theirs, ours = kernel_in(wp, row, tmp_path), kernel_in(loom, row, tmp_path)
        to_warp, to_loom, arrays = [], [], []
        for given in inputs:
            drawn = draw(random, given)
            names = {"int": "int32", "float": "float32"}
            dtype = names.get(given["dtype"], given["dtype"])
            if given["shape"]:
                to_warp.append(wp.array(drawn, dtype=getattr(wp, dtype), device="cpu"))
                to_loom.append(drawn.copy())
                arrays.append((to_loom[-1], to_warp[-1]))
            elif drawn.shape:
                to_warp.append(composite(wp, dtype, drawn.flatten().tolist()))
                to_loom.append(composite(loom, dtype, drawn.flatten().tolist()))
            else:
                to_warp.append(drawn.item())
                to_loom.append(drawn.item())
        dim = tuple(map(extent, row["metadata"]["launch"]))
        wp.launch(theirs, dim=dim, inputs=to_warp, device="cpu")
        loom.launch(ours, dim, to_loom)
        counts[row["category"]] += 1
        if not all(agrees(own, other.numpy()) for own, other in arrays):
            wrong.append(row["python_source"])
    assert not wrong, f"{len(wrong)} of {sum(counts.values())} differ, such as\n{wrong[0]}"
    print(f"{sum(counts.values())} kernels of {len(counts)} categories agree: {dict(counts)}")
    assert len(counts) >= 10 and sum(counts.values()) >= 90, counts
