"""Which arrays a kernel writes is known without code for any device: read-only and overlapping arrays are refused."""

import numpy as np
import polyloom as loom
import pytest
from sources import define

DEVICES = ["cpu", "sim:0"]
READ_ONLY = "argument '{}' of kernel '{}' is written by the kernel but read-only: pass a copy"


def deep_chain() -> str:
    """Functions of which each calls the one before twice: too many calls to inline, so there is no code for the CPU."""
    source = """
        @loom.func(inline=False)
        def f0(x: float) -> float:
            return loom.sin(x) + x * 0.5
    """
    for n in range(1, 15):
        source += f"""
        @loom.func(inline=False)
        def f{n}(x: float) -> float:
            return f{n - 1}(x) * 0.25 + f{n - 1}(x + 1.0) * 0.25
    """
    return (
        source
        + """
        @loom.kernel
        def update(a: loom.array(dtype=float)):
            a[loom.tid()] = f14(a[loom.tid()])

        @loom.kernel
        def copy(shift: loom.vec3, a: loom.array(dtype=float), b: loom.array(dtype=float), c: loom.array(dtype=float)):
            i = loom.tid()
            b[i] = f14(a[i]) + shift[0]
            c[i] = a[i]
    """
    )


def read_only(a):
    a = np.array(a, np.float32)
    a.setflags(write=False)
    return a


@pytest.fixture(scope="module")
def beyond_the_cpu():
    return define(deep_chain())


@pytest.mark.parametrize("device", DEVICES)
def test_a_kernel_without_code_for_the_cpu_does_not_write_read_only_arrays(device, beyond_the_cpu, tmp_path):
    update, a = beyond_the_cpu["update"], read_only([1.0])
    with pytest.raises(ValueError, match=READ_ONLY.format("a", "update")):
        loom.launch(update, 1, [a], device=device)
    np.ones(4, np.float32).tofile(tmp_path / "a.bin")
    mapped = np.memmap(tmp_path / "a.bin", np.float32, "r")
    with pytest.raises(ValueError, match=READ_ONLY.format("a", "update")):
        loom.launch(update, 4, [mapped], device=device)
    with pytest.raises(ValueError, match=READ_ONLY.format("a", "update")):
        loom.launch(update, 4, [mapped], device=device, record_cmd=True)
    assert a[0] == 1.0 and mapped.tolist() == [1.0] * 4


@pytest.mark.parametrize("device", DEVICES)
def test_components_of_arguments_before_an_array_do_not_shift_which_are_written(device, beyond_the_cpu):
    copy, shift = beyond_the_cpu["copy"], loom.vec3(1.0, 2.0, 3.0)
    a, b, c = read_only([1.0, 2.0]), np.zeros(2, np.float32), np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=READ_ONLY.format("b", "copy")):
        loom.launch(copy, 2, [shift, a, read_only(b), c], device=device)
    both = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="'c'.*overlaps.*'b'"):
        loom.launch(copy, 2, [shift, a, both[:2], both[1:]], device=device)
    assert both.tolist() == [0.0] * 3


def test_a_recorded_launch_refuses_a_read_only_array_in_place_of_another(beyond_the_cpu):
    step = loom.launch(beyond_the_cpu["update"], 1, [np.ones(1, np.float32)], device="sim:0", record_cmd=True)
    with pytest.raises(ValueError, match=READ_ONLY.format("a", "update")):
        step.set_param_at_index(0, read_only([1.0]))
    with pytest.raises(ValueError, match=READ_ONLY.format("a", "update")):
        step.set_params([read_only([1.0])])


@loom.func
def put(a: loom.array(dtype=float), i: int, x: float):
    a[i] = x


@loom.func
def first(a: loom.array(dtype=float), i: int) -> float:
    return a[i]


@loom.func
def moved(to: loom.array(dtype=float), of: loom.array(dtype=float), i: int):
    put(to, i, first(of, i))


@loom.kernel
def by_calls(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    moved(y, x, loom.tid())


@pytest.mark.parametrize("device", DEVICES)
def test_what_called_functions_only_read_may_be_read_only(device):
    y = np.zeros(2, np.float32)
    loom.launch(by_calls, 2, [read_only([3.0, 4.0]), y], device=device)
    assert y.tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match=READ_ONLY.format("y", "by_calls")):
        loom.launch(by_calls, 2, [y, read_only(y)], device=device)


@loom.kernel
def square(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_that_a_backward_kernel_adds_to_are_not_read_only(device):
    x, y, dy = read_only([3.0]), np.zeros(1, np.float32), np.ones(1, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        loom.launch(square, 1, [x], [y], adjoint=True, adj_inputs=[read_only([0.0])], adj_outputs=[dy], device=device)
    dx = np.zeros(1, np.float32)
    loom.launch(square, 1, [x], [y], adjoint=True, adj_inputs=[dx], adj_outputs=[dy], device=device)
    assert dx.tolist() == [6.0]
    dx = np.zeros(1, np.float32)
    loom.launch(
        square,
        1,
        [x],
        [y],
        adjoint=True,
        adj_inputs=[dx],
        adj_outputs=[read_only([1.0])],
        accumulate=False,
        device=device,
    )
    assert dx.tolist() == [6.0], "a seed that is left as it is may be read-only"
    with pytest.raises(ValueError, match="read-only"):
        loom.launch(square, 1, [x], [y], adjoint=True, adj_inputs=[dx], adj_outputs=[read_only([1.0])], device=device)
    with pytest.raises(ValueError, match="read-only"):
        loom.jvp(
            square, 1, [x, read_only(y)], tangents=[np.ones(1, np.float32), np.zeros(1, np.float32)], device=device
        )


@loom.kernel
def doubled(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = x[i] * 2.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("accumulate", [True, False])
def test_gradients_of_what_is_read_and_written_are_not_read_only(device, accumulate):
    x = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="gradient of 'x' is written but read-only"):
        loom.launch(doubled, 1, [x], adjoint=True, adj_inputs=[read_only([1.0])], accumulate=accumulate, device=device)
