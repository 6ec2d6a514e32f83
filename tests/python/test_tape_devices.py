"""Tapes: devices, blocks of threads, arrays of other libraries."""

import numpy as np
import polyloom as loom
import pytest
from tape_kernels import D, arrays, f64, product_of_all, set_to, square, square_in_place, total, weights


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
    values = np.array([1.5, -2.0, 0.5, 3.0])
    x, y = arrays(values, [0.0], device="sim:0")
    with loom.Tape() as tape:
        loom.launch(product_of_all, 1, [x], [y], device="sim:0")
    tape.backward(y)
    np.testing.assert_allclose(tape.gradients[x].numpy(), np.prod(values) / values)
    assert tape.memory.loops >= 32
    # NumPy's arrays are brought to the device and back.
    y, adj_x, adj_y = np.zeros(1), np.zeros(4), np.ones(1)
    loom.launch(product_of_all, 1, [values], [y], device="sim:0", adjoint=True, adj_inputs=[adj_x], adj_outputs=[adj_y])
    np.testing.assert_allclose(adj_x, np.prod(values) / values)
    with loom.Tape() as tape:
        loom.launch(product_of_all, 1, [values], [y], device="sim:0")
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
