"""Every program of ``examples/loom`` gives the bits of its twin in Python, on the CPU and on the simulator."""

import importlib
import re
import warnings
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "loom"
TOKENS = Path(__file__).parents[2] / "crates" / "polyloom-frontend" / "src" / "loom" / "token.rs"
EXAMPLES = sorted(FOLDER.glob("*.loom"))


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def in_numpy(value):
    return value.numpy() if isinstance(value, loom.array) else np.asarray(value)


def on(device, value):
    """An argument of its own on a device, so that no run sees what another has written."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.to(device) if isinstance(value, loom.array) and device != "cpu" else value


def arguments(path):
    twin = importlib.import_module(f"loom_twins.{path.stem}")
    return twin, twin.arguments(np.random.default_rng(1))


def results(path, program, device):
    """The results of a program on a device, and after them the arrays that it was given, which it may have written."""
    twin, given = arguments(path)
    given = [on(device, value) for value in given]
    options = {"dim": twin.dim(*given)} if hasattr(twin, "dim") else {}
    done = as_tuple(program(*given, device=device, **options))
    return [in_numpy(value) for value in (*done, *given) if isinstance(value, (loom.array, np.ndarray))]


def twin_results(path):
    twin, given = arguments(path)
    done = as_tuple(twin.twin(*given))
    return [in_numpy(value) for value in (*done, *given) if isinstance(value, (loom.array, np.ndarray))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_program_is_its_twin(path):
    program = getattr(loom.import_module(path), path.stem)
    twins = twin_results(path)
    for device in ("cpu", "sim:0"):
        own = results(path, program, device)
        assert len(own) == len(twins)
        for a, b in zip(own, twins, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, device
            assert a.tobytes() == b.tobytes(), device


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_program_computes_what_it_says(path):
    twin, given = arguments(path)
    if not hasattr(twin, "expected"):
        pytest.skip("nothing but its twin says what it computes")
    program = getattr(loom.import_module(path), path.stem)
    expected = as_tuple(twin.expected(*given))
    for own, wanted in zip(results(path, program, "cpu"), expected, strict=False):
        if wanted is not None:
            np.testing.assert_allclose(own, wanted, rtol=2e-4, atol=2e-5)


def test_there_are_thirty_programs():
    assert len(EXAMPLES) >= 30


WITHOUT_TEXT = re.compile(r"//.*|\"[^\"]*\"")


def test_programs_use_the_whole_language():
    text = "\n".join(WITHOUT_TEXT.sub("", path.read_text()) for path in FOLDER.rglob("*.loom"))
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    declared = re.search(r"^keywords! \{\n(.*?)^\}", TOKENS.read_text(), re.DOTALL | re.MULTILINE)[1]
    unused = set(re.findall(r'"(\w+)"', declared)) - words
    assert not unused, unused
    used = set(re.findall(r"@(\w+)", text))
    annotations = {"critical_path", "device", "gpu_compute", "inline", "kernel", "no_allocation", "shared", "unroll"}
    assert annotations | {"vectorize", "workgroup"} <= used
    kinds = set(re.findall(r"@kernel\((\w+)\)", text))
    assert kinds >= set("elementwise reduce matmul conv2d attention flash_attention scan sort stencil custom".split())


ANNOTATION = re.compile(r"@\w+(\([^()]*\))?")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_annotations_change_no_result(path, tmp_path):
    """Bits are the same without annotations, but for the size of blocks, which the body of a thread may rely on."""
    twin, _ = arguments(path)
    for file in FOLDER.rglob("*.loom"):
        text = file.read_text()
        if not hasattr(twin, "dim") or file != path:
            text = ANNOTATION.sub("", text)
        # A computation without a name has that of its kind.
        text = text.replace("compute(", "compute matmul(")
        (tmp_path / file.relative_to(FOLDER)).parent.mkdir(exist_ok=True)
        (tmp_path / file.relative_to(FOLDER)).write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = results(path, getattr(loom.import_module(path), path.stem), "cpu")
    bare = getattr(loom.import_module(tmp_path / path.name), path.stem)
    for device in ("cpu", "sim:0"):
        for a, b in zip(results(path, bare, device), whole, strict=True):
            assert a.tobytes() == b.tobytes(), device
