"""Tapes: views whose elements coincide."""

import numpy as np
import polyloom as loom
import pytest
from numpy.lib.stride_tricks import as_strided
from tape_kernels import arrays, f64, product, square, weights


def test_threads_that_read_one_element_by_a_broadcast_view():
    x, y = np.array([3.0]), np.zeros(1000)
    with loom.Tape() as tape:
        loom.launch(square, 1000, [np.broadcast_to(x, (1000,)), y])
    tape.backward(grads=[(y, np.ones(1000))])
    np.testing.assert_allclose(tape.gradients[x], [6000.0])


# By name: windows of three over six elements are read as one array of four times three, and copied to another.
COPIES = {
    "array": lambda windows: loom.array(windows),
    "clone": loom.clone,
    "contiguous": lambda windows: windows.contiguous(),
    "assign": lambda windows: loom.zeros((4, 3), dtype=f64, device=windows.device).assign(windows),
}


def windows_over(base):
    return loom.array(ptr=base.ptr, shape=(4, 3), strides=(8, 8), dtype=f64, device=base.device)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_windows_that_are_copied_add_up_their_gradients(copy, device):
    (base,) = arrays(weights(6), device=device)
    with loom.Tape() as tape:
        windows = windows_over(base)
        copied = copy(windows)
    tape.backward(grads=[(copied, np.ones((4, 3)))])
    # How many windows have each element.
    np.testing.assert_allclose(tape.gradients[base].numpy(), [1, 2, 3, 3, 2, 1])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_way_back_that_begins_with_windows(device):
    x, y = arrays(np.ones(6), np.zeros(6), device=device)
    with loom.Tape() as tape:
        loom.launch(square, 6, [x, y], device=device)
    tape.backward(grads=[(windows_over(y), np.ones((4, 3)))])
    np.testing.assert_allclose(tape.gradients[x].numpy(), [2, 4, 6, 6, 4, 2])


def test_one_view_of_windows_given_twice():
    base, y = np.array([3.0]), np.zeros(4)
    view = np.broadcast_to(base, 4)
    with loom.Tape() as tape:
        loom.launch(product, 4, [view, view, y])
    tape.backward(grads=[(y, np.ones(4))])
    np.testing.assert_allclose(tape.gradients[base], [24.0])
    windows = loom.from_numpy(as_strided(base, (4,), (0,)))
    with loom.Tape() as tape:
        squares = windows * windows
    tape.backward(grads=[(squares, np.ones(4))])
    np.testing.assert_allclose(tape.gradients[base], [24.0])


def test_windows_with_a_grad_of_their_own():
    base, y = np.array([3.0]), np.zeros(4)
    windows = loom.from_numpy(as_strided(base, (4,), (0,)))
    windows.requires_grad = True
    with loom.Tape() as tape:
        loom.launch(square, 4, [windows, y])
    tape.backward(grads=[(y, np.ones(4))])
    np.testing.assert_allclose(windows.grad.numpy(), [24.0] * 4)
    np.testing.assert_allclose(tape.gradients[base], [24.0])
    with pytest.raises(ValueError, match="lies in memory as the array does"):
        windows.grad = np.zeros(4)


def test_gradients_that_are_given_as_windows():
    x, sum = np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(1)
    loom.launch(square, 4, [x, np.zeros(4)], adjoint=True, adj_inputs=[as_strided(sum, (4,), (0,)), np.ones(4)])
    np.testing.assert_allclose(sum, [20.0])
    with pytest.raises(ValueError, match="the gradient of 'y', which the kernel writes, is a view in which several"):
        loom.launch(square, 4, [x, np.zeros(4)], adjoint=True, adj_inputs=[None, as_strided(sum, (4,), (0,))])


def test_assignments_to_windows_are_refused():
    windows = loom.from_numpy(as_strided(np.zeros(6), (4, 3), (8, 8)))
    with loom.Tape(), pytest.raises(ValueError, match="the last of what is assigned to them"):
        windows.assign(loom.ones((4, 3), dtype=f64))
    assert windows.numpy().max() == 0.0


class Foreign:
    """Elements of an array, of which nobody can see whose they are."""

    def __init__(self, values):
        self.kept = values
        self.__array_interface__ = {**values.__array_interface__, "version": 3}


def test_a_gradient_of_more_than_was_recorded():
    x, y = np.arange(1.0, 7.0), np.zeros(3)
    with loom.Tape() as tape:
        loom.launch(square, 3, [Foreign(x[:3]), y])
    for n in (1, 2):
        tape.backward(grads=[(y, 1)])
        np.testing.assert_array_equal(tape.gradients[Foreign(x)], n * np.array([2.0, 4.0, 6.0, 0.0, 0.0, 0.0]))
    with pytest.raises(KeyError):
        tape.gradients[Foreign(np.zeros(6))]
