"""Tapes: array operations, and what they overwrite."""

from contextlib import nullcontext

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import arrays, double, f64, set_to, square, square_in_place, total, weights

# Each of these takes an array and gives one computed from it.


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


# Of the array that they are given, the derivative of their results times the weights 1, 2, 3 …
OPERATIONS = {
    by_copy: lambda b: [1, 2, 3],
    by_copy_of_parts: lambda b: [0, 2, 3],
    by_clone: lambda b: [1, 2, 3],
    by_array: lambda b: [1, 2, 3],
    by_array_of_other_type: lambda b: [1, 2, 3],
    by_assign: lambda b: [1, 2, 3],
    by_assign_of_numpy: lambda b: [1, 2, 3],
    by_broadcast: lambda b: [5, 7, 9],
    by_items: lambda b: [2, 0, 4],
    by_chosen_items: lambda b: [0, 2, 0],
    by_fill_of_a_part: lambda b: [1, 0, 0],
    by_zero: lambda b: [0, 0, 0],
    by_copy_within: lambda b: [1 + 2, 3, 0],
    by_transpose: lambda b: [1, 2, 3],
    by_contiguous: lambda b: [1, 2, 3],
    by_operators: lambda b: weights(3) * (2 + 2 * b),
    by_operators_in_place: lambda b: weights(3) * (2 * b + 1),
    by_map: lambda b: weights(3) * 2 * b,
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
    expected = np.array(OPERATIONS[operation](before.numpy()))
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


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_derivatives_end_at_arrays_made_of_memory_that_no_tape_knows(device):
    values = np.array([1.0, 2.0, 3.0])
    made = (
        lambda: loom.array(values, dtype=f64, device=device, requires_grad=True),
        lambda: loom.array(values.tolist(), dtype=f64, device=device, requires_grad=True),
        lambda: loom.from_numpy(values.copy(), device=device, requires_grad=True),
        lambda: loom.clone(values, device=device, requires_grad=True),
    )
    for make in made:
        with loom.Tape() as tape:
            x, y = make(), loom.zeros(3, dtype=f64, device=device)
            loom.launch(square, 3, [x], [y], device=device)
        tape.backward(grads=[(y, 1.0)])
        np.testing.assert_allclose(x.grad.numpy(), 2 * values)
        np.testing.assert_allclose(tape.gradients[x].numpy(), 2 * values)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_derivatives_go_on_through_arrays_made_of_recorded_ones(device):
    values = np.array([1.0, 2.0, 3.0])
    x = loom.array(values, dtype=f64)
    # NumPy's array over memory that a launch has been given is that memory.
    for source in (lambda y: y, lambda y: y.numpy()):
        y = loom.zeros(3, dtype=f64)
        with loom.Tape() as tape:
            loom.launch(square, 3, [x], [y])
            c, z = loom.array(source(y), device=device), loom.zeros(3, dtype=f64, device=device)
            loom.launch(square, 3, [c], [z], device=device)
        tape.backward(grads=[(z, 1.0)])
        np.testing.assert_allclose(tape.gradients[x].numpy(), 4 * values**3)


def test_operators_in_place_read_what_was_there_before():
    start = np.array([1.0, 2.0, 3.0, 4.0])
    for by_tape in (False, True):
        with loom.Tape() if by_tape else nullcontext():
            x = loom.array(start, dtype=f64)
            x *= x[::-1]
            np.testing.assert_array_equal(x.numpy(), start * start[::-1])
            x = loom.array(start, dtype=f64)
            loom.map(loom.neg, x[:3], out=x[1:])
            np.testing.assert_array_equal(x.numpy(), [1, -1, -2, -3])
            x = loom.array(start, dtype=f64)
            x += x[0:1]
            np.testing.assert_array_equal(x.numpy(), start + 1)


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
