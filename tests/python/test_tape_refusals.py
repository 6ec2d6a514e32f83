"""What is refused: adjoints that share memory or have wrong shapes, changes that are not recorded, bad seeds."""

import ctypes

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import D, arrays, double, f64, product, set_to, square, square_in_place, sum_of_squares, total

DEVICES = ["cpu", "sim:0"]
X = np.array([1.0, 2.0, 3.0])


@loom.kernel
def scale(s: f64, v: loom.vec3d, x: D, y: D):
    i = loom.tid()
    y[i] = s * x[i] * v[0]


@loom.kernel
def thirds(loss: D):
    loss[0] = loss[0] / f64(3.0)


def recorded(x, y):
    with loom.Tape() as tape:
        loom.launch(square, 3, [x], [y])
    return tape


def back(kernel, args, adjoints):
    loom.launch(kernel, 3, args, adjoint=True, adj_inputs=adjoints)


def test_adjoints_that_share_memory():
    both = np.ones(3)
    with pytest.raises(ValueError, match="gradient of 'y' has elements in common with the gradient of 'x'"):
        back(square, [X, np.zeros(3)], [both, both])
    x = X.copy()
    with pytest.raises(ValueError, match="gradient of 'x' has elements in common with the argument 'x'"):
        back(square, [x, np.zeros(3)], [x, np.ones(3)])
    np.testing.assert_array_equal(x, X)
    # Those that are only added to may be one.
    both = np.zeros(3)
    back(product, [X, 2 * X, np.zeros(3)], [both, both, np.ones(3)])
    np.testing.assert_allclose(both, 3 * X)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_one_launch_are_not_differentiated(device):
    x, y, gradient, ones, loss = (
        loom.array(values, dtype=f64, device=device) for values in (X, np.zeros(3), np.zeros(3), np.ones(3), [0.0])
    )
    with loom.Tape():
        loom.launch(square, 3, [x], [y], adjoint=True, adj_inputs=[gradient], adj_outputs=[ones], device=device)
        with pytest.raises(RuntimeError, match="backward kernel of 'square', of which there are no second derivatives"):
            loom.launch(sum_of_squares, 3, [gradient], [loss], device=device)
    np.testing.assert_allclose(gradient.numpy(), 2 * X)
    # What replaces all of it is recorded as ever.
    with loom.Tape() as tape:
        ones.fill_(1.0)
        loom.launch(square, 3, [x], [y], adjoint=True, adj_inputs=[gradient], adj_outputs=[ones], device=device)
        gradient.assign(x)
        loom.launch(sum_of_squares, 3, [gradient], [loss], device=device)
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[x].numpy(), 2 * X)


def test_grad_that_shares_memory():
    x = loom.array(X, dtype=f64)
    with pytest.raises(ValueError, match="memory of its own"):
        x.grad = x
    assert not x.requires_grad
    y = loom.zeros(3, dtype=f64)
    x.grad = loom.zeros(3, dtype=f64)
    y.grad = x.grad
    with pytest.raises(ValueError, match="two arrays have gradients that share memory"):
        recorded(x, y).backward(grads={y: np.ones(3)})
    needed = loom.ones(3, dtype=f64)
    y.requires_grad, x.grad = False, needed
    with loom.Tape() as tape:
        loom.launch(product, 3, [x, needed, y])
    with pytest.raises(ValueError, match="shares memory with an array that a recorded operation needs"):
        tape.backward(grads={y: np.ones(3)})
    tape.reset()


def test_two_objects_for_one_array_and_its_grad():
    memory, grad = X.copy(), np.zeros(3)
    arrays = [loom.from_numpy(memory) for _ in range(2)]
    for each in arrays:
        each.grad = loom.from_numpy(grad)
    y = loom.zeros(3, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(product, 3, [*arrays, y])
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(grad, 2 * X)


@pytest.mark.parametrize("device", DEVICES)
def test_tangents_of_arguments_that_share_memory(device):
    x, y, dot_x = X.copy(), np.zeros(3), np.ones(3)
    with pytest.raises(ValueError, match="writes its argument 'y', which has elements in common with argument 'x'"):
        loom.jvp(square, 3, [x, x], tangents=[dot_x, np.zeros(3)], device=device)
    with pytest.raises(ValueError, match="elements in common"):
        loom.jvp(square, 3, [x, y], tangents=[dot_x, dot_x], device=device)
    np.testing.assert_array_equal(x, X)
    # What is only read may be one.
    dot_y = np.zeros(3)
    loom.jvp(product, 3, [x, x, y], tangents=[dot_x, dot_x, dot_y], device=device)
    np.testing.assert_allclose(dot_y, 2 * X)


def test_adjoints_of_numbers_and_vectors_have_one_element():
    args = [2.0, loom.vec3d(1.0, 2.0, 3.0), X, np.zeros(3)]
    behind = np.zeros(4)
    for wrong in (behind[:0], behind[:3], np.zeros(1, np.float32), np.zeros((1, 1))):
        with pytest.raises(ValueError, match=r"array of one element, of shape \(1,\) and type float64"):
            back(scale, args, [wrong, None, None, np.ones(3)])
    with pytest.raises(ValueError, match=r"array of one element, of shape \(1, 3\) and type float64"):
        back(scale, args, [None, np.zeros(3), None, np.ones(3)])
    for wrong in ([0.0], loom.vec3d()):
        with pytest.raises(TypeError, match="array of one element, not (list|vec3d)"):
            back(scale, args, [None, wrong, None, np.ones(3)])
    assert not behind.any()
    of_s, of_v = np.zeros(1), loom.zeros(1, dtype=loom.vec3d)
    back(scale, args, [of_s, of_v, None, np.ones(3)])
    np.testing.assert_allclose(of_s, [6.0])
    np.testing.assert_allclose(of_v.numpy(), [[12.0, 0.0, 0.0]])


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_differentiated_is_what_was_recorded(device):
    changes = {
        "'thirds' that is not recorded": lambda loss: loom.launch(thirds, 1, [loss], device=device),
        "an assignment that is not recorded": lambda loss: loss.fill_(1.0),
    }
    if device == "cpu":
        changes["something that is not recorded"] = lambda loss: np.divide(loss.numpy(), 3.0, out=loss.numpy())
    for message, change in changes.items():
        x, loss = loom.array(X, dtype=f64, device=device), loom.zeros(1, dtype=f64, device=device)
        loss.requires_grad = True
        with loom.Tape() as tape:
            loom.launch(sum_of_squares, 3, [x], [loss], device=device)
        change(loss)
        with pytest.raises(RuntimeError, match=f"{message}.* that the way back is to begin with"):
            tape.backward(loss)
        loss.grad.fill_(1.0)
        with pytest.raises(RuntimeError, match=f"{message}.* that the way back is to begin with"):
            tape.backward()
    # Recorded, it is differentiated.
    x, loss = X.copy(), np.zeros(1)
    with loom.Tape() as tape:
        loom.launch(sum_of_squares, 3, [x], [loss])
        loom.launch(thirds, 1, [loss])
    tape.backward(loss)
    np.testing.assert_allclose(tape.gradients[x], 2 * X / 3)


def test_refusals_say_what_to_write_instead():
    x, y = X.copy(), np.zeros(3)
    tape = recorded(x, y)
    with pytest.raises(ValueError, match="launch what computes it inside `with` the tape"):
        tape.backward(grads=[(np.zeros(3), 1.0)])
    with pytest.raises(ValueError, match="arrays of floating-point numbers, not of int32"):
        tape.backward(grads=[(np.zeros(3, np.int32), 1.0)])
    for key, described in ((np.zeros(3, np.int32), "of int32"), (1.0, "float")):
        with pytest.raises(KeyError, match=f"arrays of floating-point numbers, not {described}"):
            tape.gradients[key]
    with pytest.raises(TypeError, match=r"record_func\(\) takes a function without parameters, not int"):
        loom.Tape().record_func(3, [])
    with pytest.raises(RuntimeError, match="the tape is not recording in this thread"):
        loom.Tape().__exit__(None, None, None)
    with pytest.raises(ValueError, match="tape_memory is a number of bytes"):
        loom.config.tape_memory = 1 << 70
    square_matrix = loom.array(np.ones((2, 3)), dtype=f64, requires_grad=True)
    square_matrix.grad = np.asfortranarray(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"use a view with the array's order of axes, or array\.contiguous\(\)"):
        square_matrix[0].grad.numpy()


def test_loops_that_are_too_long_to_be_recorded():
    @loom.kernel
    def long(x: D, n: loom.int64, y: D):
        i = loom.tid()
        v = x[i]
        for _ in range(n):
            v = loom.sin(v)
        y[i] = v

    with pytest.raises(ValueError, match="kernel 'long': a loop .* not differentiated: split it into two loops, or"):
        adjoints = [np.zeros(3), None, np.ones(3)]
        loom.launch(long, 1, [X, 2**40, np.zeros(3)], adjoint=True, adj_inputs=adjoints)


def test_gradients_that_a_way_back_cannot_begin_with():
    x, y = X.copy(), np.zeros(3)
    wrong = [
        ([(y, None)], TypeError, "real numbers"),
        ([(y, 1j * np.ones(3))], TypeError, "real numbers"),
        ([(y, "1")], TypeError, "real numbers"),
        (
            [(y, np.ones((1, 3)))],
            ValueError,
            r"shape \(3,\) is an array like it or a number, not one of shape \(1, 3\)",
        ),
        ([(y, np.ones(2))], ValueError, r"not one of shape \(2,\)"),
        ([y], TypeError, "pairs of them"),
        (y, TypeError, "pairs of them"),
        (loom.from_numpy(y), TypeError, "pairs of them"),
    ]
    for grads, error, message in wrong:
        with pytest.raises(error, match=message):
            recorded(x, y).backward(grads=grads)
    for grads in ([(y, 2.0)], [[y, [2.0, 2.0, 2.0]]], [(y, np.full(3, 2, np.int32))]):
        tape = recorded(x, y)
        tape.backward(grads=grads)
        np.testing.assert_allclose(tape.gradients[x], 4 * X)
    with pytest.raises(TypeError, match="lists of gradients, not ndarray"):
        loom.launch(square, 3, [x, y], adjoint=True, adj_inputs=np.zeros(3))


def test_changes_that_are_not_recorded_are_refused():
    (x,), (y,) = arrays([3.0, 5.0, 2.0]), arrays([0.0] * 3)
    changes = {
        "'set_to' that is not recorded": lambda: loom.launch(set_to, 3, [x, 1.0]),
        "an assignment that is not recorded": lambda: x.fill_(2.0),
        "something that is not recorded": lambda: x.numpy().fill(0.5),
        "the backward kernel of 'square'": lambda: loom.launch(
            square, 3, [y], [y.numpy().copy()], adjoint=True, adj_inputs=[x], adj_outputs=[np.ones(3)]
        ),
    }
    for message, change in changes.items():
        tape = recorded(x, y)
        change()
        with pytest.raises(RuntimeError, match=message):
            tape.backward(grads={y: np.ones(3)})
    tape = recorded(x, y)
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", ["backward", "zero", "a gradient of its own", "inside"])
def test_what_other_tapes_write_is_a_change(device, how):
    """They write the gradients of their arrays, which another tape may have been given."""
    x = loom.array(X, dtype=f64, device=device, requires_grad=how != "a gradient of its own")
    if not x.requires_grad:
        x.grad = loom.zeros(3, dtype=f64, device=device)
    y, loss = loom.zeros(3, dtype=f64, device=device), loom.zeros(1, dtype=f64, device=device)
    with loom.Tape() as outer:
        loom.launch(sum_of_squares, 3, [x.grad], [loss], device=device)
        with loom.Tape() as tape:
            loom.launch(square, 3, [x], [y], device=device)
        if how == "inside":
            tape.backward(grads=[(y, 1)])
    if how == "zero":
        tape.zero()
    elif how != "inside":
        tape.backward(grads=[(y, 1)])
    with pytest.raises(RuntimeError, match="of a tape has overwritten an array that a recorded operation needs"):
        outer.backward(loss)


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_recorded_function_writes_is_a_change(device):
    x, y, loss = (loom.array(values, dtype=f64, device=device) for values in (X, np.zeros(3), [0.0]))
    z = loom.ones(3, dtype=f64, device=device, requires_grad=True)
    writes = {
        "a launch of 'double'": lambda: loom.launch(double, 3, [y], [x], device=device),
        "an assignment": lambda: x.fill_(3.0),
    }
    for what, write in writes.items():
        with loom.Tape() as other:
            loom.launch(square, 3, [x], [y], device=device)
        with loom.Tape() as tape:
            tape.record_func(write, [z])
        tape.backward(grads=[(z, 1)])
        with pytest.raises(RuntimeError, match=f"{what} that is not recorded has overwritten"):
            other.backward(grads=[(y, 1)])
        # The way back that calls it is under way then.
        with loom.Tape() as tape:
            loom.launch(square, 3, [x], [y], device=device)
            tape.record_func(write, [z])
            loom.launch(sum_of_squares, 3, [y], [loss], device=device)
        with pytest.raises(RuntimeError, match=f"{what} that is not recorded has overwritten"):
            tape.backward(loss)


def test_a_recorded_function_may_have_a_tape_of_its_own():
    x, y = loom.array(X, dtype=f64, requires_grad=True), loom.zeros(3, dtype=f64, requires_grad=True)

    def again():
        squared = loom.zeros(3, dtype=f64)
        with loom.Tape() as inner:
            loom.launch(square, 3, [x], [squared])
        inner.backward(grads=[(squared, y.grad)])
        y.grad.zero_()

    with loom.Tape() as tape:
        y.assign(X * X)
        tape.record_func(again, [x, y])
    tape.backward(grads=[(y, X)])
    np.testing.assert_allclose(x.grad.numpy(), 2 * X * X)


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


@pytest.mark.parametrize("n", [100, 10_000, 500_001])
def test_a_change_of_any_one_element_is_noticed(n):
    x, y = np.ones(n), np.zeros(n)
    for at in (0, 37, n // 2 + 1, n - 1):
        with loom.Tape() as tape:
            loom.launch(square, n, [x], [y])
        x[at] += 1.0
        with pytest.raises(RuntimeError, match="something that is not recorded"):
            tape.backward(grads=[(y, np.ones(n))])


def test_two_changed_signs_are_noticed():
    x, y = np.ones(10_000), np.zeros(10_000)
    with loom.Tape() as tape:
        loom.launch(square, len(x), [x], [y])
    x[[0, 8]] *= -1.0
    with pytest.raises(RuntimeError, match="something that is not recorded"):
        tape.backward(grads=[(y, np.ones(len(y)))])


def by_numpy(x):
    return x.numpy()


def by_view(x):
    return x[100:].numpy()[-100:]


def by_interface(x):
    return np.asarray(x)


def by_dlpack(x):
    return np.from_dlpack(x)


def by_address(x):
    return np.ctypeslib.as_array((ctypes.c_double * x.size).from_address(x.ptr))


@pytest.mark.parametrize("seen", [by_numpy, by_view, by_interface, by_dlpack, by_address])
@pytest.mark.parametrize("is_seen_before", [True, False])
def test_arrays_of_the_package_are_watched_once_somebody_else_has_them(seen, is_seen_before):
    # `y` is watched from the beginning, `x` when it is handed out.
    x, y = loom.array(np.arange(10_000.0)), np.zeros(10_000)
    elements = seen(x) if is_seen_before else None
    with loom.Tape() as tape:
        loom.launch(square, len(y), [x], [y])
    tape.backward(grads=[(y, np.ones(len(y)))])
    np.testing.assert_array_equal(tape.gradients[x].numpy(), 2.0 * np.arange(10_000.0))
    elements = seen(x) if elements is None else elements
    tape.backward(grads=[(y, np.ones(len(y)))])
    elements[55] = 7.0
    with pytest.raises(RuntimeError, match="something that is not recorded"):
        tape.backward(grads=[(y, np.ones(len(y)))])


def test_what_nobody_else_has_is_not_looked_at():
    def watched():
        return [region.watched[1] for region in tape._history if region.is_watched]

    x, y = loom.array(np.arange(1000.0)), loom.zeros(1000, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(square, 1000, [x], [y])
        print(y, y.list()[0], x[2])
    tape.backward(grads={y: np.ones(1000)})
    assert tape.gradients[x][3] == 6.0
    assert not watched()
    y.numpy()
    assert watched() == [8000]


def test_only_the_part_that_operations_use_is_watched():
    x, y = np.ones(1000), np.zeros(100)
    with loom.Tape() as tape:
        loom.launch(square, 100, [x[200:300]], [y])
        x[500] = 3.0
        loom.launch(square, 100, [x[450:550]], [y])
    x[0] = 5.0
    tape.backward(grads=[(y, np.ones(100))])
    assert tape.gradients[x][500] == 6.0
    x[460] = 2.0
    with pytest.raises(RuntimeError, match="something that is not recorded"):
        tape.backward(grads=[(y, np.ones(100))])


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
