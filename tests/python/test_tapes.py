"""Tapes: what they record, what they keep, and the way back."""

import gc
import weakref

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import D, arrays, double, f64, square, square_in_place, sum_of_squares, total, weights


def test_steps_into_one_array_keep_nothing():
    """A row for each step: no row is read before it is written, so there is nothing to keep."""
    states, loss = np.zeros((200, 4)), np.zeros(1)
    states[0] = [1.0, 1.01, 0.99, 1.001]
    start = states[0].copy()
    with loom.Tape() as tape:
        for step in range(5):
            loom.launch(square, 4, [states[step]], [states[step + 1]])
        loom.launch(total, 4, [states[5]], [loss])
    assert tape.memory.saved == 0
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[states][0], weights(4) * 32 * start**31)
    np.testing.assert_allclose(tape.gradients[states[0]], weights(4) * 32 * start**31)


def test_no_tape_leaves_launches_alone(monkeypatch):
    from polyloom import _native, _tape

    # Without those that other tests have left.
    monkeypatch.setattr(_tape, "_tapes", weakref.WeakSet())
    (x,) = arrays([3.0, 5.0, 2.0])
    with loom.Tape() as tape:
        loom.launch(square_in_place, 3, [x])
    assert _native.recording_level() == 1
    tape.reset()
    assert _native.recording_level() == 0
    with tape:
        loom.launch(square_in_place, 3, [x])
    del tape
    gc.collect()
    loom.launch(square_in_place, 3, [x])
    assert _native.recording_level() == 0


def test_integers_are_kept_too():
    @loom.kernel
    def gather(index: loom.array(dtype=int), x: D, y: D):
        i = loom.tid()
        y[i] = x[index[i]] * x[index[i]]

    @loom.kernel
    def count(index: loom.array(dtype=int)):
        loom.atomic_add(index, 0, 1)

    (x,), (y,), (z,) = arrays([3.0, 5.0, 2.0]), arrays([0.0]), arrays([0.0])
    index = loom.zeros(1, dtype=int)
    with loom.Tape() as tape:
        loom.launch(gather, 1, [index, x], [y])
        loom.launch(count, 1, [index])
        loom.launch(gather, 1, [index, x], [z])
        index.fill_(2)
    tape.backward(grads={y: np.ones(1), z: np.ones(1)})
    np.testing.assert_array_equal(tape.gradients[x].numpy(), [6.0, 10.0, 0.0])
    with pytest.raises(TypeError, match="written as integers"), loom.Tape():
        loom.launch(square, 3, [x], [loom.zeros(3, dtype=f64)])
        x.view(loom.int64).fill_(0)


def test_functions_of_ones_own_on_the_way_back():
    x = loom.array([3.0, 5.0, 2.0], dtype=f64, requires_grad=True)
    y, z = loom.zeros(3, dtype=f64, requires_grad=True), loom.zeros(3, dtype=f64, requires_grad=True)
    loss = loom.zeros(1, dtype=f64)
    seen = []

    def cube_backward():
        seen.append(y.numpy().copy())
        y.grad.assign(y.grad.numpy() + 3 * y.numpy() ** 2 * z.grad.numpy())

    with loom.Tape() as tape:
        loom.launch(double, 3, [x], [y])
        z.numpy()[:] = y.numpy() ** 3
        tape.record_func(cube_backward, arrays=[y, z])
        loom.launch(total, 3, [z], [loss])
        # Behind it, y is something else.
        y.zero_()
    tape.backward(loss)
    np.testing.assert_allclose(seen[0], 2 * x.numpy())
    assert not y.numpy().any()
    np.testing.assert_allclose(x.grad.numpy(), weights(3) * 24 * x.numpy() ** 2)
    with pytest.raises(ValueError, match="requires_grad=True"):
        tape.record_func(cube_backward, arrays=[loss])


def test_tapes_within_tapes():
    (x,), (y,), (z,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3), arrays([0.0] * 3)
    x.requires_grad = True
    with loom.Tape() as outer:
        loom.launch(square, 3, [x], [y])
        with loom.Tape() as inner:
            loom.launch(square, 3, [y], [z])
        with pytest.raises(RuntimeError, match="recording already"), outer:
            pass
    outer.backward(grads={z: np.ones(3)})
    inner.backward(grads={z: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.numpy() ** 3)
    np.testing.assert_allclose(inner.gradients[y].numpy(), 2 * x.numpy() ** 2)
    # The result of a way back is no function of what an outer tape has recorded.
    with pytest.raises(RuntimeError, match="no second derivatives"), loom.Tape():
        with loom.Tape() as inner:
            loom.launch(square, 3, [x], [y])
        inner.backward(grads={y: np.ones(3)})
        loom.launch(square, 3, [x.grad], [y])


def test_launches_kept_for_later_are_recorded_when_they_run():
    x, loss = np.array([1.5, 1.0, 0.5]), np.zeros(1)
    start = x.copy()
    with loom.Tape() as tape:
        step = loom.launch(square_in_place, 3, [x], record_cmd=True)
        assert not tape.launches
        for _ in range(3):
            step.launch()
        sum_up = loom.launch(total, 3, [np.ones(3), loss], record_cmd=True)
        sum_up.set_param_by_name("x", x)
        sum_up.launch()
        silent = loom.launch(total, 3, [np.ones(3), np.zeros(1)], record_cmd=True, record_tape=False)
        silent.launch()
    assert [each.name for each in tape.launches] == ["square_in_place"] * 3 + ["total"]
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[x], weights(3) * 8 * start**7)


def test_arguments_are_kept_as_they_were():
    @loom.kernel
    def scale(s: f64, v: loom.vec3d, x: D, y: D):
        i = loom.tid()
        y[i] = s * v[1] * x[i]

    x, y, s, v = np.ones(2), np.zeros(2), np.array(3.0), np.array([0.0, 2.0, 0.0])
    with loom.Tape() as tape:
        loom.launch(scale, 2, [s, v, x, y])
    s[()], v[:] = 0.0, 0.0
    tape.backward(grads=[(y, np.ones(2))])
    np.testing.assert_allclose(tape.gradients[x], [6.0, 6.0])


def test_memory_is_reported():
    @loom.kernel
    def powers(x: D, y: D):
        i = loom.tid()
        p = f64(1.0)
        for _k in range(50):
            p = p * loom.sin(p + x[i])
        y[i] = p

    x, y = np.ones(4), np.zeros(4)
    with loom.Tape() as tape:
        loom.launch(powers, 4, [x], [y])
        loom.launch(square_in_place, 4, [y])
        loom.launch(square_in_place, 4, [y])
    assert tape.memory == (2 * y.nbytes, 0, 0)
    assert [each.saved for each in tape.launches] == [0, y.nbytes, y.nbytes]
    tape.backward(grads=[(y, np.ones(4))])
    # One number of each iteration and thread.
    assert [each.loops for each in tape.launches] == [50 * 4 * 8, 0, 0]
    assert tape.memory == (2 * y.nbytes, x.nbytes + y.nbytes, 50 * 4 * 8)
    assert "powers: 0 bytes saved, 1600 for loops" in repr(tape.launches[0])


def test_gradients_of_one_launch_as_warp_takes_them():
    @loom.kernel
    def scale(s: f64, x: D, y: D):
        i = loom.tid()
        y[i] = s * x[i]

    x = loom.array([3.0, 5.0, 2.0], dtype=f64, requires_grad=True)
    y = loom.zeros(3, dtype=f64, requires_grad=True)
    y.grad.fill_(1.0)
    # Without gradients, those that the arrays have; and for the number whatever there is.
    loom.launch(scale, 3, [2.0, x], [y], adjoint=True)
    np.testing.assert_allclose(x.grad.numpy(), [2.0] * 3)
    y.grad.fill_(1.0)
    loom.launch(scale, 3, [2.0, x], [y], adjoint=True, adj_inputs=[0.0, None], adj_outputs=[None])
    np.testing.assert_allclose(x.grad.numpy(), [4.0] * 3)
    of_s, of_x = np.zeros(1), np.zeros(3)
    loom.launch(scale, 3, [2.0, x, y], adjoint=True, adj_inputs=[of_s, of_x, np.ones(3)])
    np.testing.assert_allclose(of_s, [10.0])
    np.testing.assert_allclose(of_x, [2.0] * 3)
    with pytest.raises(ValueError, match="one for each argument"):
        loom.launch(scale, 3, [2.0, x], [y], adjoint=True, adj_inputs=[None])
    with pytest.raises(TypeError, match="over dim"):
        loom.launch(scale, inputs=[2.0, x], outputs=[y], grid=1, block=3, adjoint=True)
    with pytest.raises(TypeError, match="a gradient is an array, not float"):
        loom.launch(scale, 3, [2.0, x], [y], adjoint=True, adj_inputs=[None, 1.0])
    with pytest.raises(TypeError, match=r"takes 3 arguments \(s, x, y\), 2 given"):
        loom.launch(scale, 3, [2.0, x], adjoint=True)


def test_empty_arrays():
    x, y, loss = np.zeros(0), np.zeros(0), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(square, 0, [x], [y])
        loom.launch(total, 0, [y], [loss])
        loom.zeros(0, dtype=f64).assign(loom.zeros(0, dtype=f64))
    tape.backward(loss)
    assert tape.gradients[x].shape == (0,)


def test_gradients_of_what_was_there_in_between():
    (x,), loss, seen = arrays([1.0, 2.0, 3.0]), loom.zeros(1, dtype=f64), []
    x.requires_grad = True
    with loom.Tape() as tape:
        loom.launch(square_in_place, 3, [x])
        tape.record_func(lambda: seen.append(x.grad.numpy().copy()), [x])
        loom.launch(square_in_place, 3, [x])
        loom.launch(total, 3, [x, loss])
    tape.backward(loss)
    # The loss is the weighted sum of x⁴, and x² is what was there in between.
    start = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(seen, [2.0 * weights(3) * start**2])
    np.testing.assert_allclose(tape.gradients[x].numpy(), 4.0 * weights(3) * start**3)


def test_what_a_launch_computes_has_no_gradient_of_what_was_there_before():
    (x, y), loss = arrays([1.0, 2.0, 3.0], [9.0, 9.0, 9.0]), loom.zeros(1, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x, y])
        loom.launch(total, 3, [y, loss])
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[y].numpy(), 0.0)
    np.testing.assert_allclose(tape.gradients[x].numpy(), 2.0 * weights(3) * np.array([1.0, 2.0, 3.0]))


def test_functions_of_ones_own_may_be_called_twice():
    """As the guide has it: the gradient of what was replaced is taken, so that the second time adds as much."""
    p, q = (loom.array(values, dtype=f64, requires_grad=True) for values in ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]))
    loss = loom.zeros(1, dtype=f64)

    def cumsum_backward():
        p.grad.assign(p.grad.numpy() + np.cumsum(q.grad.numpy()[::-1])[::-1])
        q.grad.zero_()

    with loom.Tape() as tape:
        q.numpy()[:] = np.cumsum(p.numpy())
        tape.record_func(cumsum_backward, [p, q])
        loom.launch(total, 3, [q], [loss])
    for times in (1.0, 2.0):
        tape.backward(loss)
        np.testing.assert_array_equal(p.grad.numpy(), times * np.array([6.0, 5.0, 3.0]))


def test_functions_of_ones_own_in_a_loop():
    p = loom.array([1.0, 2.0, 3.0], dtype=f64, requires_grad=True)
    q, loss = loom.zeros(3, dtype=f64, requires_grad=True), loom.zeros(1, dtype=f64)

    def doubled_backward():
        p.grad.assign(p.grad.numpy() + 2 * q.grad.numpy())
        q.grad.zero_()

    def recorded(by_assign, p=p):
        p.assign([1.0, 2.0, 3.0])
        with loom.Tape() as tape:
            for _ in range(2):
                if by_assign:
                    q.assign(2 * p.numpy())
                else:
                    q.numpy()[:] = 2 * p.numpy()
                tape.record_func(doubled_backward, [p, q])
                loom.launch(sum_of_squares, 3, [q], [loss])
                p *= 0.5
        return tape

    # What q held in the first iteration is lost: NumPy overwrote it.
    with pytest.raises(RuntimeError, match="something that is not recorded"):
        recorded(False).backward(loss)
    # Σ (2 p)² + (2 p / 2)²
    recorded(True).backward(loss)
    np.testing.assert_allclose(p.grad.numpy(), [10, 20, 30])
    # Of what a launch left in q, nothing is needed.
    p.grad.zero_()
    with loom.Tape() as tape:
        loom.launch(square, 3, [p], [q])
        q.numpy()[:] = 2 * p.numpy()
        tape.record_func(doubled_backward, [p, q])
        loom.launch(total, 3, [q], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(p.grad.numpy(), 2 * weights(3))


def test_retain_grad_keeps_the_gradient_of_the_last_value():
    x = loom.ones(3, dtype=loom.float64, requires_grad=True)
    y = loom.zeros(3, dtype=loom.float64, requires_grad=True, retain_grad=True)
    z = loom.zeros(3, dtype=loom.float64, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
        loom.launch(square, 3, [y], [z])
    tape.backward(grads={z: np.ones(3)})
    assert y.grad.list() == [2.0] * 3 and x.grad.list() == [4.0] * 3
    y.requires_grad = False
    assert not y.retain_grad
    with pytest.raises(ValueError, match="needs requires_grad=True"):
        y.retain_grad = True


def test_a_recording_is_drawn():
    x, y = loom.ones(3, dtype=loom.float64, requires_grad=True), loom.zeros(3, dtype=loom.float64, requires_grad=True)
    with loom.Tape() as tape:
        tape.record_scope_begin("squares")
        for _ in range(4):
            loom.launch(square, 3, [x], [y])
        tape.record_scope_end()
        tape.record_scope_begin("nothing")
        tape.record_scope_end()
    assert tape.scopes == [(0, "squares", {}), (4, None, None)]
    text = tape.visualize()
    assert "repeated 4x" in text and 'label="squares"' in text and "array: dtype=float64" in text
    assert text.count("square\\n") == 1 and tape.visualize(simplify_graph=False).count('label="square"') == 4
