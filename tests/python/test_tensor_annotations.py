"""`Tensor[...]` in the annotations of fused functions."""

# Names of extents are no names of Python.
# ruff: noqa: F821

import typing

import numpy as np
import polyloom as loom
import pytest
from fused_functions import n_runs
from polyloom import Tensor, float32, ops


@loom.fuse
def my_computation(a: Tensor[float32], b: Tensor[float32]) -> Tensor[float32]:
    temp1 = ops.add(a, b)
    temp2 = ops.relu(temp1)
    temp2 = temp2 * 2
    return ops.multiply(temp2, a)


@loom.fuse
def affine(x: Tensor[np.float32, "n", 3], w: Tensor[float32, 3], b: "Tensor[float32, 'n']"):
    return ops.add(ops.sum(ops.multiply(x, w), axes=1), b)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_declared_arguments_are_taken():
    a = np.linspace(-1, 1, 5, dtype=np.float32)
    assert np.array_equal(my_computation(a, a), np.maximum(a + a, 0) * 2 * a)
    assert n_runs(my_computation) == 2
    for n in (2, 4, 2):
        assert np.array_equal(affine(np.ones((n, 3), np.float32), np.ones(3, np.float32), zeros(n)), np.full(n, 3.0))
    with pytest.raises(ValueError):
        affine(zeros(4, 3), zeros(3), zeros(2))
    array = loom.array(np.ones(4, np.float32), dtype=loom.float32)
    assert np.array_equal(my_computation(array, array).numpy(), np.full(4, 4.0))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((zeros(2, 3), zeros(3), zeros(3)), ValueError, "`b` has shape (3,), and `n` is 2 by `x`"),
        ((zeros(2, 4), zeros(4), zeros(2)), ValueError, "`x` is Tensor[float32, 'n', 3], and has shape (2, 4)"),
        ((zeros(2, 3), zeros(1, 3), zeros(2)), ValueError, "`w` is Tensor[float32, 3], and has shape (1, 3)"),
        ((zeros(2, 3, dtype=float), zeros(3), zeros(2)), TypeError, "`x` is Tensor[float32, 'n', 3], and float64 is"),
        ((zeros(2, 3), 1.0, zeros(2)), TypeError, "`w` is Tensor[float32, 3], and a 'float' is no tensor"),
    ],
)
def test_others_are_refused_by_name(arguments, error, message):
    with pytest.raises(error) as caught:
        affine(*arguments)
    assert str(caught.value).startswith("`affine`: ") and message in str(caught.value)


def test_what_is_no_extent_is_refused_where_it_is_written():
    for extent in (-1, 1.5, True, None):
        with pytest.raises(TypeError, match="an extent of a Tensor is a number or a name"):
            Tensor[float32, extent]
    assert repr(Tensor[float32, "n", 4]) == "Tensor[float32, 'n', 4]" and Tensor[float32] == Tensor[np.float32]


def test_functions_without_groups_are_checked_too():
    @loom.fuse
    def f(a: Tensor[float32]):
        """Documented."""
        return a

    assert f(zeros(1)).shape == (1,)
    with pytest.raises(TypeError):
        f(zeros(1, dtype=np.int32))
    assert f.__doc__ == "Documented."


@loom.fuse
def shifted(x: Tensor[float32, "n"], *more: Tensor[float32, "n"], b: Tensor[float32, "n"] = None):
    for each in more:
        x = ops.add(ops.relu(each), x)
    return x if b is None else ops.subtract(ops.exp(x), b)


def test_optional_and_collected_arguments_are_checked():
    a = np.ones(3, np.float32)
    assert np.array_equal(shifted(a), a)
    assert np.array_equal(shifted(a, a, a, b=None), 3 * a)
    for call, message in [
        (lambda: shifted(a, b=zeros(2)), "`b` has shape (2,), and `n` is 3 by `x`"),
        (lambda: shifted(a, a, zeros(4)), "`more[1]` has shape (4,), and `n` is 3 by `x`"),
    ]:
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == f"`shifted`: {message}"


def test_none_passes_where_it_is_declared():
    annotations = [Tensor[float32, 2] | None, None | Tensor[float32, 2], "Tensor[float32, 2] | None"]
    annotations += [typing.Optional[Tensor[float32, 2]], "typing.Optional[Tensor[float32, 2]]"]  # noqa: UP045
    for annotation in annotations:

        def f(x, y):
            return x if y is None else ops.relu(ops.add(x, y))

        f.__annotations__["y"] = annotation
        fused = loom.fuse(f)
        assert fused(1.0, None) == 1.0
        with pytest.raises(ValueError, match=r"`y` is Tensor\[float32, 2\] | None, and has shape \(3,\)"):
            fused(zeros(3), zeros(3))


def test_gradients_check_what_annotations_declare():
    @loom.fuse
    def loss(x: Tensor[float32, "n", 7], s: Tensor[float32, "n"]):
        return ops.sum(ops.multiply(x, ops.reshape(s, (-1, 1))))

    assert loom.grad(loss)(zeros(2, 7), zeros(2)).shape == (2, 7)
    with pytest.raises(ValueError, match="`loss`: `s` has shape"):
        loom.grad(loss)(zeros(2, 7), zeros(3))
    with pytest.raises(ValueError, match=r"`loss`: `x` is Tensor\[float32, 'n', 7\], and has shape \(3, 4\)"):
        loom.value_and_grad(loss)(zeros(3, 4), zeros(3))


def test_an_annotation_with_a_mistake_warns():
    def f(x: "Tensor[flaot32, 'n']"):
        return ops.relu(x)

    with pytest.warns(RuntimeWarning, match="the annotation of `x`, .*flaot32.* cannot be read: name 'flaot32'"):
        loom.fuse(f)
