"""Tapes: array operations, changes that are not recorded, `grad`, devices, arrays of other libraries."""

import gc
import weakref

import numpy as np
import polyloom as loom
import pytest
from numpy.lib.stride_tricks import as_strided

f64 = loom.float64
D = loom.array(dtype=f64)


@loom.kernel
def square(x: D, y: D):
    i = loom.tid()
    y[i] = x[i] * x[i]


@loom.kernel
def product(x: D, z: D, y: D):
    i = loom.tid()
    y[i] = x[i] * z[i]


@loom.kernel
def double(x: D, y: D):
    i = loom.tid()
    y[i] = f64(2.0) * x[i]


@loom.kernel
def square_in_place(x: D):
    i = loom.tid()
    x[i] = x[i] * x[i]


@loom.kernel
def total(x: D, loss: D):
    i = loom.tid()
    loom.atomic_add(loss, 0, x[i] * f64(i + 1))


@loom.kernel
def set_to(x: D, value: f64):
    x[loom.tid()] = value


def arrays(*values, device=None):
    return [loom.array(np.array(value, np.float64), dtype=f64, device=device) for value in values]


def weights(n):
    return np.arange(1.0, n + 1)


# Each takes an array and gives one computed from it, with its derivative times the weights 1, 2, 3 …


def by_copy(x):
    y = loom.zeros(3, dtype=f64)
    loom.copy(y, x)
    return y


def by_copy_of_parts(x):
    y = loom.ones(5, dtype=f64)
    loom.launch(square, 5, [loom.ones(5, dtype=f64)], [y])
    loom.copy(y, x, dest_offset=1, src_offset=1, count=2)
    return y


def by_clone(x):
    return loom.clone(x)


def by_array(x):
    return loom.array(x, dtype=f64)


def by_array_of_other_type(x):
    return loom.array(loom.array(x, dtype=loom.float32), dtype=f64)


def by_assign(x):
    return loom.empty_like(x).assign(x)


def by_assign_of_numpy(x):
    return loom.empty_like(x).assign(x.numpy())


def by_broadcast(x):
    y = loom.zeros((2, 3), dtype=f64)
    y.assign(x)
    return y.flatten()


def by_items(x):
    y = loom.zeros(4, dtype=f64)
    y[1:] = x
    y[0] = 7.0
    y[2] = 1.0
    return y


def by_chosen_items(x):
    y = loom.clone(x)
    y[[0, 2]] = 4.0
    return y


def by_fill_of_a_part(x):
    y = loom.clone(x)
    y[1:].fill_(2.0)
    return y


def by_zero(x):
    y = loom.clone(x)
    loom.launch(square_in_place, 3, [y])
    y.zero_()
    return y


def by_copy_within(x):
    y = loom.clone(x)
    y[1:] = y[:-1]
    return y


def by_transpose(x):
    y = loom.zeros((1, 3), dtype=f64)
    y.T.assign(x.reshape((3, 1)))
    return y.flatten()


def by_contiguous(x):
    return loom.array(np.zeros(6), dtype=f64).reshape((3, 2)).T[0].contiguous().assign(x)


def by_operators(x):
    return 2.0 * x + x * x


def by_operators_in_place(x):
    y = loom.clone(x)
    y *= y
    y += x
    return y


def by_map(x):
    return loom.map(lambda a: a * a, x)


OPERATIONS = {
    by_copy: [1, 2, 3],
    by_copy_of_parts: [0, 2, 3],
    by_clone: [1, 2, 3],
    by_array: [1, 2, 3],
    by_array_of_other_type: [1, 2, 3],
    by_assign: [1, 2, 3],
    by_assign_of_numpy: [1, 2, 3],
    by_broadcast: [5, 7, 9],
    by_items: [2, 0, 4],
    by_chosen_items: [0, 2, 0],
    by_fill_of_a_part: [1, 0, 0],
    by_zero: [0, 0, 0],
    by_copy_within: [1 + 2, 3, 0],
    by_transpose: [1, 2, 3],
    by_contiguous: [1, 2, 3],
    by_operators: [1 * (2 + 6), 2 * (2 + 10), 3 * (2 + 4)],
    by_operators_in_place: [1 * 7, 2 * 11, 3 * 5],
    by_map: [6, 20, 12],
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_array_operations_carry_derivatives(operation):
    (x,) = arrays([3.0, 5.0, 2.0])
    # On both sides of launches, so that what they need and overwrite counts.
    with loom.Tape() as tape:
        before = loom.zeros(3, dtype=f64)
        loom.launch(double, 3, [x], [before])
        y = operation(before)
        loss = loom.zeros(1, dtype=f64)
        loom.launch(total, y.shape, [y], [loss])
    tape.backward(loss)
    expected = np.array(OPERATIONS[operation], float)
    if operation in (by_operators, by_operators_in_place, by_map):
        # Those were worked out for 3, 5, 2, and `before` is twice that.
        b = 2 * x.numpy()
        slope = {by_operators: 2 + 2 * b, by_operators_in_place: 2 * b + 1, by_map: 2 * b}[operation]
        at = x.numpy()
        at_x = {by_operators: 2 + 2 * at, by_operators_in_place: 2 * at + 1, by_map: 2 * at}[operation]
        np.testing.assert_allclose(expected, at_x * weights(3))
        expected = slope * weights(3)
    np.testing.assert_allclose(tape.gradients[x].numpy(), 2 * expected)


@pytest.mark.parametrize(
    "overwrite",
    [
        lambda x: x.zero_(),
        lambda x: x.fill_(3.0),
        lambda x: x.assign([7.0, 8.0, 9.0]),
        lambda x: loom.copy(x, loom.ones(3, dtype=f64)),
        lambda x: x.__setitem__(slice(0, 2), 4.0),
        lambda x: x.__setitem__([2, 0], 4.0),
        lambda x: x.__setitem__(1, 4.0),
        lambda x: loom.launch(set_to, 3, [x, 4.0]),
    ],
)
def test_what_operations_overwrite_is_kept(overwrite):
    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
        overwrite(x)
        loss = loom.zeros(1, dtype=f64)
        loom.launch(total, 3, [y], [loss])
    after = x.numpy().copy()
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[x].numpy(), [6.0, 20.0, 12.0])
    np.testing.assert_array_equal(x.numpy(), after)
    assert tape.memory.saved > 0


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


def test_parts_that_overlap_are_kept_as_they_were():
    x = np.array([2.0, 3.0, 5.0, 7.0])
    start, loss = x.copy(), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(square_in_place, 3, [x[:3]])
        loom.launch(square_in_place, 3, [x[1:]])
        loom.launch(square_in_place, 2, [x[::2]])
        loom.launch(total, 4, [x], [loss])
    tape.backward(loss)
    powers = np.array([4, 4, 8, 2])
    np.testing.assert_allclose(x, start**powers)
    np.testing.assert_allclose(tape.gradients[x], weights(4) * powers * start ** (powers - 1.0))


def test_changes_that_are_not_recorded_are_refused():
    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3)

    def recorded():
        with loom.Tape() as tape:
            loom.launch(square, 3, [x], [y])
        return tape

    changes = {
        "'set_to' that is not recorded": lambda: loom.launch(set_to, 3, [x, 1.0]),
        "an assignment that is not recorded": lambda: x.fill_(2.0),
        "something that is not recorded": lambda: x.numpy().fill(0.5),
        "the backward kernel of 'square'": lambda: loom.launch(
            square, 3, [y], [y.numpy().copy()], adjoint=True, adj_inputs=[x], adj_outputs=[np.ones(3)]
        ),
    }
    for message, change in changes.items():
        tape = recorded()
        change()
        with pytest.raises(RuntimeError, match=message):
            tape.backward(grads={y: np.ones(3)})
    tape = recorded()
    command = loom.launch(set_to, 3, [x, 1.0], record_cmd=True)
    command.launch()
    with pytest.raises(RuntimeError, match="'set_to' that is not recorded"):
        tape.backward(grads={y: np.ones(3)})
    # What the way back does not ask for may change.
    with loom.Tape() as tape:
        loom.launch(double, 3, [x], [y])
    x.numpy()[:] = 9.0
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_array_equal(tape.gradients[x].numpy(), [2.0] * 3)


def test_changes_between_recorded_operations_are_refused():
    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3)
    with pytest.raises(RuntimeError, match="between operations of a tape"), loom.Tape():
        loom.launch(double, 3, [x], [y])
        y.numpy()[:] = 0.0
        loom.launch(total, 3, [y], [loom.zeros(1, dtype=f64)])
    with pytest.raises(RuntimeError, match="'set_to' that is not recorded"), loom.Tape():
        loom.launch(double, 3, [x], [y])
        loom.launch(set_to, 3, [y, 1.0], record_tape=False)
        loom.launch(total, 3, [y], [loom.zeros(1, dtype=f64)])
    # An assignment to the whole makes up for it.
    with loom.Tape() as tape:
        loom.launch(double, 3, [x], [y])
        y.numpy()[:] = 0.0
        y.fill_(1.0)
        loom.launch(square_in_place, 3, [y])
    tape.backward(grads={y: np.ones(3)})
    assert not tape.gradients[x].numpy().any()


def test_all_bytes_are_looked_at_on_demand():
    x, y = np.ones(100_000), np.zeros(100_000)
    for verify in (False, True):
        with loom.Tape(verify=verify) as tape:
            loom.launch(square, len(x), [x], [y])
        x[12_345] += 1.0
        if verify:
            with pytest.raises(RuntimeError, match="something that is not recorded"):
                tape.backward(grads=[(y, np.ones(len(y)))])
        else:
            tape.backward(grads=[(y, np.ones(len(y)))])


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


def test_launches_that_fail_are_not_recorded():
    @loom.kernel(check=True)
    def beyond(x: D, y: D):
        i = loom.tid()
        y[i] = x[i + 1]

    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3)
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
        with pytest.raises(TypeError, match="takes 2 arguments"):
            loom.launch(square, 3, [x])
        with pytest.raises(TypeError, match="argument 'y'"):
            loom.launch(square, 3, [x], [[1.0]])
        with pytest.raises(loom.LaunchError):
            loom.launch(beyond, 3, [x], [loom.zeros(3, dtype=f64)])
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(tape.gradients[x].numpy(), [6.0, 10.0, 4.0])
    with pytest.raises(RuntimeError, match="has changed an array"), loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
        with pytest.raises(loom.LaunchError):
            loom.launch(beyond, 3, [x], [y])
        loom.launch(square_in_place, 3, [y])


def test_functions_of_whole_arrays_without_a_derivative_are_refused():
    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0])
    keys, values = loom.array([2, 1, 0, 0], dtype=int), loom.array([0, 1, 0, 0], dtype=int)
    with loom.Tape():
        with pytest.raises(ValueError, match="polyloom.utils computes is not differentiated"):
            loom.utils.array_sum(x, out=y)
        with pytest.raises(ValueError, match="polyloom.utils computes is not differentiated"):
            loom.utils.array_scan(x, x)
        with pytest.raises(ValueError, match="assignments of arrays to chosen elements"):
            x[[0, 1]] = loom.ones(2, dtype=f64)
        loom.utils.radix_sort_pairs(keys, values, 2)
    assert keys.list()[:2] == [1, 2]
    loom.utils.array_sum(x, out=y)


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
    with pytest.raises(ValueError, match="needs a loss"):
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


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_tapes_on_devices(device):
    start = np.array([1.5, 1.0, 0.5, 2.0])
    x = loom.array(start, dtype=f64, device=device, requires_grad=True)
    y, loss = loom.zeros(4, dtype=f64, device=device), loom.zeros(1, dtype=f64, device=device)
    with loom.Tape() as tape:
        loom.launch(square, 4, [x], [y], device=device)
        loom.launch(square_in_place, 2, [y[1:3]], device=device)
        y[3:].fill_(4.0)
        z = loom.clone(y)
        z *= z
        loom.copy(y, z, count=2)
        loom.launch(total, 4, [y], [loss], device=device)
    after = y.numpy().copy()
    tape.backward(loss)
    slope = weights(4) * [4 * start[0] ** 3, 8 * start[1] ** 7, 4 * start[2] ** 3, 0]
    np.testing.assert_allclose(x.grad.numpy(), slope)
    assert x.grad.device == device and tape.gradients[y].device == device
    np.testing.assert_array_equal(y.numpy(), after)
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), 2 * slope)
    assert tape.memory.saved > 0
    tape.zero()
    assert not x.grad.numpy().any()
    loom.launch(set_to, 4, [x, 1.0], device=device)
    with pytest.raises(RuntimeError, match="'set_to' that is not recorded"):
        tape.backward(loss)


def test_loops_have_their_tapes_on_the_device():
    @loom.kernel
    def product(x: D, y: D):
        p = f64(1.0)
        for k in range(x.shape[0]):
            p *= x[k]
        y[loom.tid()] = p

    values = np.array([1.5, -2.0, 0.5, 3.0])
    x, y = arrays(values, [0.0], device="sim:0")
    with loom.Tape() as tape:
        loom.launch(product, 1, [x], [y], device="sim:0")
    tape.backward(y)
    np.testing.assert_allclose(tape.gradients[x].numpy(), np.prod(values) / values)
    assert tape.memory.loops >= 32
    # NumPy's arrays are brought to the device and back.
    y, adj_x, adj_y = np.zeros(1), np.zeros(4), np.ones(1)
    loom.launch(product, 1, [values], [y], device="sim:0", adjoint=True, adj_inputs=[adj_x], adj_outputs=[adj_y])
    np.testing.assert_allclose(adj_x, np.prod(values) / values)
    with loom.Tape() as tape:
        loom.launch(product, 1, [values], [y], device="sim:0")
    tape.backward(y)
    np.testing.assert_allclose(tape.gradients[values], np.prod(values) / values)


def test_derivatives_cross_devices():
    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3)
    with loom.Tape() as tape:
        there = x.to("sim:0")
        loom.launch(square_in_place, 3, [there], device="sim:0")
        loom.copy(y, there)
    tape.backward(grads={y: weights(3)})
    np.testing.assert_allclose(tape.gradients[x].numpy(), 2 * x.numpy() * weights(3))


class Foreign:
    """An array of some other library."""

    def __init__(self, memory):
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__


class Exporter:
    """One that knows DLPack alone."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


@pytest.mark.parametrize("library", [Foreign, Exporter])
def test_arrays_of_other_libraries(library):
    memory = np.array([3.0, 5.0, 2.0, 1.0])
    y, loss = np.zeros(4), np.zeros(1)
    # Neither of the first two is a view of the other as far as NumPy knows, and the last is all of them.
    head, tail, whole = library(memory[:3]), library(memory[2:]), library(memory)
    with loom.Tape() as tape:
        loom.launch(square, 3, [head], [library(y[:3])])
        loom.launch(total, 3, [y[:3]], [loss])
        loom.launch(total, 2, [tail], [loss])
        loom.launch(square_in_place, 4, [whole])
        loom.launch(total, 4, [whole], [loss])
    tape.backward(library(loss))
    start = np.sqrt(memory)
    expected = np.array([2, 4, 6, 0]) * start + [0, 0, 1, 2] + weights(4) * 2 * start
    np.testing.assert_allclose(tape.gradients[whole], expected)
    np.testing.assert_allclose(tape.gradients[head], expected[:3])
    np.testing.assert_allclose(tape.gradients[library(memory)], expected)


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
    with pytest.raises(ValueError, match="record_cmd is for launches forward"):
        loom.launch(scale, 3, [2.0, x], [y], adjoint=True, record_cmd=True)
    with pytest.raises(TypeError, match="over dim"):
        loom.launch(scale, inputs=[2.0, x], outputs=[y], grid=1, block=3, adjoint=True)
    with pytest.raises(TypeError, match="a gradient is an array, not float"):
        loom.launch(scale, 3, [2.0, x], [y], adjoint=True, adj_inputs=[None, 1.0])
    with pytest.raises(TypeError, match=r"takes 3 arguments \(s, x, y\), 2 given"):
        loom.launch(scale, 3, [2.0, x], adjoint=True)


def test_threads_that_read_one_element_by_a_broadcast_view():
    x, y = np.array([3.0]), np.zeros(1000)
    with loom.Tape() as tape:
        loom.launch(square, 1000, [np.broadcast_to(x, (1000,)), y])
    tape.backward(grads=[(y, np.ones(1000))])
    np.testing.assert_allclose(tape.gradients[x], [6000.0])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_results_of_map_go_where_its_inputs_are(device):
    x, z = arrays([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], device=device)
    with loom.Tape() as tape:
        loom.map(lambda a, b: a * b, x, z, out=x)
        x[1:] *= x[:-1]
    np.testing.assert_array_equal(x.numpy(), [5.0, 60.0, 252.0, 672.0])
    tape.backward(grads=[(x, np.ones(4))])
    # The sum of p₀ and all pₖ pₖ₋₁, where p is the product.
    of_product = np.array([1.0 + 12.0, 5.0 + 21.0, 12.0 + 32.0, 21.0])
    np.testing.assert_array_equal(tape.gradients[x].numpy(), of_product * [5.0, 6.0, 7.0, 8.0])
    np.testing.assert_array_equal(tape.gradients[z].numpy(), of_product * [1.0, 2.0, 3.0, 4.0])


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


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_an_assignment_may_be_what_a_tape_records_first(device):
    (x,), y = arrays([1.0, 2.0, 3.0], device=device), loom.zeros(3, dtype=f64, device=device)
    with loom.Tape() as tape:
        x[0] = 5.0
        loom.launch(square, 3, [x], [y], device=device)
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(tape.gradients[x].numpy(), [0, 4, 6])
    # Other tapes are told of it.
    with pytest.raises(RuntimeError, match="'fill', recorded elsewhere"):
        with loom.Tape() as tape:
            loom.launch(square, 3, [x], [y], device=device)
        with loom.Tape():
            x[0] = 6.0
        tape.backward(grads={y: np.ones(3)})


def test_making_arrays_is_not_recorded():
    (x,) = arrays([1.0, 2.0])
    with loom.Tape() as tape:
        for each in (loom.full(3, 2.0), loom.ones(3), loom.zeros_like(x), loom.full_like(x, 3.0), loom.ones_like(x)):
            assert each.numpy().size
    assert not tape.launches


def test_keys_are_kept_as_they_were():
    for key, later in ((np.array([True, False, True]), False), (np.array([0, 2]), 1), ([0, 2], [1])):
        (x,), y = arrays([1.0, 2.0, 3.0]), loom.zeros(3, dtype=f64)
        with loom.Tape() as tape:
            c = loom.clone(x)
            c[key] = 5.0
            key[:] = later
            loom.launch(square, 3, [c], [y])
        tape.backward(grads={y: np.ones(3)})
        np.testing.assert_allclose(tape.gradients[x].numpy(), [0, 4, 0])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_assignments_within_an_array_copy_what_was_there(device):
    values, seed = np.arange(9.0).reshape(3, 3), np.arange(1.0, 10.0).reshape(3, 3)
    expected = values.copy()
    expected[:, 2] = values[1]
    # The elements that are replaced have no gradient; what they had is that of the row.
    gradient = seed.copy()
    gradient[:, 2] = 0.0
    gradient[1] += seed[:, 2]

    def by_assign(a):
        a[:, 2].assign(a[1])

    def by_item(a):
        a[:, 2] = a[1]

    for operation in (by_assign, by_item):
        a = loom.array(values, dtype=f64, device=device)
        operation(a)
        np.testing.assert_array_equal(a.numpy(), expected)
        a = loom.array(values, dtype=f64, device=device)
        with loom.Tape() as tape:
            operation(a)
        np.testing.assert_array_equal(a.numpy(), expected)
        tape.backward(grads={a: seed})
        np.testing.assert_array_equal(tape.gradients[a].numpy(), gradient)


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


@loom.kernel
def sum_of_squares(x: D, loss: D):
    i = loom.tid()
    loom.atomic_add(loss, 0, x[i] * x[i])


@loom.kernel
def by_place_in_block(x: D, y: D):
    i = loom.tid()
    y[i] = x[i] * f64(loom.thread_idx() + 1000 * loom.block_dim())


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_the_way_back_runs_in_the_blocks_of_the_launch(device):
    expected = np.arange(64) % 32 + 32000.0

    def check(kernel, inputs):
        x, y = inputs
        with loom.Tape() as tape:
            loom.launch(kernel, 64, [x, y], device=device, block_dim=32)
        tape.backward(grads=[(y, np.ones(64))])
        np.testing.assert_allclose(tape.gradients[x], expected)

    x, y = np.ones(64), np.zeros(64)
    check(by_place_in_block, (x, y))
    with loom.Tape() as tape:
        loom.launch(by_place_in_block, 64, [x, y], device=device, block_dim=32, record_cmd=True).launch()
    tape.backward(grads=[(y, np.ones(64))])
    np.testing.assert_allclose(tape.gradients[x], expected)
    adj_x = np.zeros(64)
    adjoints = {"adj_inputs": [adj_x], "adj_outputs": [np.ones(64)]}
    loom.launch(by_place_in_block, 64, [x], [y], device=device, block_dim=32, adjoint=True, **adjoints)
    np.testing.assert_allclose(adj_x, expected)
    dot_y = np.zeros(64)
    with loom.Tape() as tape:
        loom.jvp(by_place_in_block, 64, [x], [y], tangents=[np.ones(64), dot_y], device=device, block_dim=32)
    np.testing.assert_allclose(dot_y, expected)
    tape.backward(grads=[(y, np.ones(64))])
    np.testing.assert_allclose(tape.gradients[x], expected)
    assert loom.gradcheck(by_place_in_block, [x, y], device=device, block_dim=32, samples=3)
