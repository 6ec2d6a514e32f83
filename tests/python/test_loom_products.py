"""Products of matrices reach the tensor engine where that keeps every bit, and nowhere else."""

import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops

RANDOM = np.random.default_rng(9)

TEXT = """
compute product(A, B) @kernel(matmul) {{
    for i in 0..M, j in 0..N {{
        var sum = 0.0
        for k in 0..K {{ {} }}
        out[i, j] = sum
    }}
}}
"""
FUSED = "sum = fma(A[i, k], B[k, j], sum)"
PLAIN = "sum += A[i, k] * B[k, j]"


def product(term):
    return loom.loom_module(TEXT.format(term)).product


@pytest.fixture
def calls(monkeypatch):
    """How often the tensor engine multiplies."""
    found = []
    engine = ops.matmul

    def counted(a, b):
        found.append(a.shape)
        return engine(a, b)

    monkeypatch.setattr(ops, "matmul", counted)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fused_terms_are_the_engines_chain(dtype, calls):
    a, b = RANDOM.standard_normal((37, 65)).astype(dtype), RANDOM.standard_normal((65, 29)).astype(dtype)
    program = product(FUSED)
    given = program(a, b, device="cpu")
    assert calls == [(37, 65)]
    # The simulator runs the loops.
    assert given.tobytes() == program(a, b, device="sim:0").tobytes()
    assert len(calls) == 1
    out = np.zeros((37, 29), dtype)
    program.launch(a, b, out, device="cpu")
    assert len(calls) == 2 and out.tobytes() == given.tobytes()


@pytest.mark.parametrize("left", ["A[i, k]", "A[k, i]"])
@pytest.mark.parametrize("right", ["B[k, j]", "B[j, k]"])
def test_factors_may_be_transposed(left, right, calls, tmp_path):
    a, b = RANDOM.standard_normal((37, 21)).astype(np.float32), RANDOM.standard_normal((21, 29)).astype(np.float32)
    expected = product(FUSED)(a, b, device="sim:0")
    given = [a.T.copy() if left == "A[k, i]" else a, b.T.copy() if right == "B[j, k]" else b]
    term = f"sum = fma({left}, {right}, sum)"
    assert product(term)(*given, device="cpu").tobytes() == expected.tobytes()
    assert calls == [(37, 21)]
    path = tmp_path / "product.loom"
    path.write_text(TEXT.format(term))
    arguments = []
    for name, value in zip("AB", given, strict=True):
        np.save(tmp_path / f"{name}.npy", value)
        arguments += ["--arg", f"{name}=@{tmp_path / name}.npy"]
    command("run", str(path), *arguments, "--out", f"out={tmp_path / 'out.npy'}")
    assert np.load(tmp_path / "out.npy").tobytes() == expected.tobytes()


def test_a_factor_of_another_shape_is_an_error(calls):
    with pytest.raises(ValueError, match="`K` is 21"):
        product("sum = fma(A[k, i], B[k, j], sum)")(np.ones((21, 3), np.float32), np.ones((20, 4), np.float32))
    assert not calls


def test_terms_that_round_twice_stay_loops(calls):
    a, b = RANDOM.standard_normal((9, 40)).astype(np.float32), RANDOM.standard_normal((40, 7)).astype(np.float32)
    given = product(PLAIN)(a, b, device="cpu")
    expected = np.zeros((9, 7), np.float32)
    for k in range(40):
        expected = expected + a[:, k : k + 1] * b[k : k + 1]
    np.testing.assert_array_equal(given, expected)
    assert not calls


def test_modes_that_contract_reach_the_engine(calls):
    a, b = RANDOM.standard_normal((9, 40)).astype(np.float32), RANDOM.standard_normal((40, 7)).astype(np.float32)
    before = loom.config.float_mode
    loom.config.float_mode = "contract"
    try:
        given = product(PLAIN)(a, b, device="cpu")
    finally:
        loom.config.float_mode = before
    assert len(calls) == 1
    np.testing.assert_allclose(given, a.astype(np.float64) @ b, rtol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        (np.ones((3, 4), np.int32), np.ones((4, 2), np.int32)),
        (np.ones((3, 4), np.float16), np.ones((4, 2), np.float16)),
        (np.ones((0, 4), np.float32), np.ones((4, 2), np.float32)),
    ],
    ids=["integers", "halves", "empty"],
)
def test_other_elements_stay_loops(arguments, calls):
    text = TEXT.format(PLAIN if arguments[0].dtype == np.int32 else FUSED)
    if arguments[0].dtype == np.int32:
        text = text.replace("var sum = 0.0", "var sum = 0")
    result = loom.loom_module(text).product(*arguments, device="cpu")
    np.testing.assert_array_equal(result, arguments[0].astype(np.float64) @ arguments[1])
    assert not calls


def test_what_does_more_stays_loops(calls):
    text = TEXT.format(FUSED).replace("out[i, j] = sum", "out[i, j] = sum + 1.0")
    a = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(loom.loom_module(text).product(a, a, device="cpu"), a + 1)
    assert not calls


def test_arrays_of_other_types_than_written_are_an_error(calls):
    text = TEXT.format(FUSED).replace("(A, B)", "(A: array<f32, M, K>, B: array<f32, K, N>)")
    program = loom.loom_module(text).product
    a = RANDOM.standard_normal((4, 4)).astype(np.float32)
    program(a, a, device="cpu")
    assert len(calls) == 1
    messages = []
    for device in ("cpu", "sim:0"):
        with pytest.raises(TypeError) as caught:
            program(a.astype(np.float64), a.astype(np.float64), device=device)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert len(calls) == 1


def test_an_fma_of_the_file_is_no_builtin(calls):
    own = "fn fma(a: f32, b: f32, c: f32) -> f32 { return a + b + c }\n"
    with pytest.raises(loom.CompileError, match="adds up nothing"):
        loom.loom_module(own + TEXT.format(FUSED))
    text = own + TEXT.format(FUSED).replace("@kernel(matmul)", "")
    a = np.full((2, 2), 3, np.float32)
    np.testing.assert_array_equal(loom.loom_module(text).product(a, a, device="cpu"), np.full((2, 2), 12))
    assert not calls


def test_tapes_record_the_loops(calls):
    a = loom.array(RANDOM.random((3, 4)), dtype=loom.float32, requires_grad=True)
    b = loom.array(RANDOM.random((4, 2)), dtype=loom.float32, requires_grad=True)
    out = loom.zeros((3, 2), dtype=loom.float32, requires_grad=True)
    tape = loom.Tape()
    with tape:
        product(FUSED).launch(a, b, out)
    out.grad = loom.array(np.ones((3, 2), np.float32))
    tape.backward()
    assert not calls
    np.testing.assert_allclose(a.grad.numpy(), np.ones((3, 2)) @ b.numpy().T, rtol=1e-6)


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "polyloom", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_say_and_do_the_same(tmp_path):
    a, b = RANDOM.standard_normal((33, 20)).astype(np.float32), RANDOM.standard_normal((20, 19)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    said = {}
    for name, term in (("fused", FUSED), ("plain", PLAIN)):
        path = tmp_path / f"{name}.loom"
        path.write_text(TEXT.format(term))
        said[name] = command("explain", str(path))
        out = tmp_path / f"{name}.npy"
        files = [f"A=@{tmp_path / 'a.npy'}", f"B=@{tmp_path / 'b.npy'}"]
        command("run", str(path), "--arg", files[0], "--arg", files[1], "--out", f"out={out}")
        assert np.load(out).tobytes() == product(term)(a, b, device="sim:0").tobytes()
    assert "the tensor engine computes it on the CPU" in said["fused"]
    assert "its loops run, because `sum += a * b` rounds twice a term" in said["plain"]
