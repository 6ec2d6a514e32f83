"""Tapes: the `grad` of arrays."""

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import arrays, double, f64, square, square_in_place, total, weights


def test_gradients_add_up_in_grad():
    x = loom.array([3.0, 5.0, 2.0], dtype=f64, requires_grad=True)
    y, loss = loom.zeros(3, dtype=f64, requires_grad=True), loom.zeros(1, dtype=f64, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
        loom.launch(total, 3, [y], [loss])
    expected = 2 * x.numpy() * weights(3)
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), expected)
    assert tape.gradients[x] is x.grad
    assert tape.memory.gradients == 0
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected)
    tape.zero()
    assert not x.grad.numpy().any() and not loss.grad.numpy().any()
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy())
    with loom.Tape() as another:
        loom.launch(double, 3, [x], [y])
    another.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() + 2)
    tape.reset()
    assert not x.grad.numpy().any()
    with pytest.raises(KeyError):
        tape.gradients[x]


def test_going_back_twice_adds_twice():
    """Also where an array is overwritten, whose gradient at the end is not that at the beginning."""
    x, loss = np.array([1.5, 1.0, 0.5]), np.zeros(1)
    start = x.copy()
    with loom.Tape() as tape:
        loom.launch(square_in_place, 3, [x])
        loom.launch(square_in_place, 3, [x])
        loom.launch(total, 3, [x], [loss])
    for times in (1, 2, 3):
        tape.backward(loss)
        np.testing.assert_allclose(tape.gradients[x], times * weights(3) * 4 * start**3)


def test_a_way_back_may_begin_with_grad():
    x = loom.array([3.0, 5.0, 2.0], dtype=f64, requires_grad=True)
    y = loom.zeros(3, dtype=f64, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
    y.grad.fill_(2.0)
    x.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 + 4 * x.numpy())
    assert not y.grad.numpy().any()
    with pytest.warns(UserWarning, match="nothing to begin with"):
        loom.Tape().backward()


def test_views_have_parts_of_grad():
    x = loom.array(np.arange(6.0).reshape(2, 3), dtype=f64, requires_grad=True)
    loss = loom.zeros(1, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(total, 2, [x[:, 1]], [loss])
        loom.launch(total, 6, [x.flatten()], [loss])
    assert x[0].requires_grad and x.T[1].grad.shape == (2,)
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), [[1, 2 + 1, 3], [4, 5 + 2, 6]])
    np.testing.assert_allclose(x[1, 1:].grad.numpy(), [7, 6])
    np.testing.assert_allclose(x.T.grad.numpy(), x.grad.numpy().T)
    x[0].grad.zero_()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0, 0], [4, 7, 6]])
    # An array over another's memory has a gradient of its own.
    memory = np.ones(8)
    odd = loom.from_numpy(memory[1::2], requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(total, 8, [memory], [loss])
        loom.launch(total, 2, [odd[2:]], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(odd.grad.numpy(), [2, 4, 6 + 1, 8 + 2])
    np.testing.assert_allclose(tape.gradients[memory][1::2], odd.grad.numpy())


def test_grad_is_like_the_array():
    x = loom.zeros(3, dtype=loom.vec3, requires_grad=True)
    assert x.grad.dtype is loom.vec3 and x.grad.shape == (3,) and not x.grad.requires_grad
    x.requires_grad = False
    assert x.grad is None
    x.grad = loom.ones(3, dtype=loom.vec3)
    assert x.requires_grad and x.grad.numpy().all()
    with pytest.raises(ValueError, match="shape \\(3,\\) and type vec3"):
        x.grad = loom.ones(2, dtype=loom.vec3)
    x.grad = None
    assert not x.requires_grad
    assert loom.clone(loom.ones(2, requires_grad=True)).requires_grad
    assert not loom.clone(loom.ones(2, requires_grad=True), requires_grad=False).requires_grad


def test_arrays_that_no_operation_is_given_have_their_grad():
    def made(*values):
        return loom.array(np.array(values), dtype=f64, requires_grad=True)

    # Only the target of an assignment.
    x, y, z = made(1.0, 2.0, 3.0), made(0.0, 0.0, 0.0), loom.zeros(3, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [z])
        y.assign(z)
    y.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), [2, 4, 6])
    assert not y.grad.numpy().any()
    x, y = made(1.0, 2.0, 3.0), made(5.0, 6.0)
    with loom.Tape() as tape:
        x[1:] = y
    tape.backward(grads={x: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), [1, 0, 0])
    np.testing.assert_allclose(y.grad.numpy(), [1, 1])
    # Only their memory.
    x, y = made(1.0, 2.0, 3.0), loom.zeros(3, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x.numpy(), y])
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), [2, 4, 6])
    tape.zero()
    assert not x.grad.numpy().any()


def test_an_array_may_get_its_grad_after_it_was_recorded():
    (x,), y = arrays([1.0, 2.0, 3.0]), loom.zeros(3, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
    x.requires_grad = True
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), [2, 4, 6])
    np.testing.assert_allclose(tape.gradients[x].numpy(), [2, 4, 6])
    x.requires_grad = False
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(tape.gradients[x].numpy(), [2, 4, 6])


def test_nothing_is_added_to_the_gradient_of_integers():
    @loom.kernel
    def scale(n: loom.array(dtype=int), x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = float(n[i]) * x[i]

    for make in (loom.zeros, loom.ones, loom.empty):
        assert make(3, dtype=int, requires_grad=True).requires_grad
    n = loom.array([2, 3], dtype=int, requires_grad=True)
    x, y = loom.ones(2, dtype=float, requires_grad=True), loom.zeros(2, dtype=float, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(scale, 2, [n, x, y])
    tape.backward(grads={y: np.ones(2)})
    assert x.grad.list() == [2.0, 3.0]
    assert n.grad.dtype is loom.int32 and n.grad.list() == [0, 0]
    assert n[1:].requires_grad and n[1:].grad.list() == [0]
    floats = n.view(loom.float32)
    assert not floats.requires_grad and floats.grad is None
    n.requires_grad = False
    assert n.grad is None


def test_integers_over_the_memory_of_floats_have_no_gradient():
    x = loom.ones(2, dtype=float, requires_grad=True)
    bits = x.view(loom.uint32)
    assert not bits.requires_grad and not loom.clone(bits).requires_grad
