"""`polyloom.autograd`: Jacobians, and checks by them."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import autograd


@loom.kernel
def mixed(a: loom.array(dtype=float), b: loom.array(dtype=loom.vec2), x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = a[i] * a[i] * b[i][0] + 3.0 * b[i][1]


@loom.func
def wrong(x: float):
    return x * x


@loom.func_grad(wrong)
def adj_wrong(x: float, adj: float):
    loom.adjoint[x] -= 2.0 * x * adj


@loom.kernel
def wrongly(a: loom.array(dtype=float), x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = wrong(a[i])


def arrays():
    a = loom.array([1.0, -2.0], requires_grad=True)
    b = loom.array([[0.5, 1.0], [2.0, 3.0]], dtype=loom.vec2, requires_grad=True)
    return a, b, loom.zeros(2, requires_grad=True)


BY_A = np.diag([2 * 1.0 * 0.5, 2 * -2.0 * 2.0])
BY_B = np.array([[1.0, 3.0, 0.0, 0.0], [0.0, 0.0, 4.0, 3.0]])


@pytest.mark.parametrize("of", [autograd.jacobian, autograd.jacobian_fd])
def test_jacobians_are_those_of_calculus(of):
    a, b, x = arrays()
    a.grad.fill_(7.0)
    found = of(mixed, dim=2, inputs=[a, b], outputs=[x])
    assert sorted(found) == [(0, 0), (1, 0)]
    np.testing.assert_allclose(found[0, 0].numpy(), BY_A, rtol=1e-2)
    np.testing.assert_allclose(found[1, 0].numpy(), BY_B, atol=1e-2)
    assert a.grad.numpy().tolist() == [7.0, 7.0]
    assert sorted(of(mixed, dim=2, inputs=[a, b], outputs=[x], input_output_mask=[("b", "x")])) == [(1, 0)]
    with pytest.raises(ValueError, match="'mixed' has no input 'c'; there are a, b"):
        of(mixed, dim=2, inputs=[a, b], outputs=[x], input_output_mask=[("c", 0)])
    with pytest.raises(ValueError, match="dim is missing"):
        of(mixed, inputs=[a, b], outputs=[x])


def test_functions_are_checked_and_their_inputs_left_alone():
    a, b, _ = arrays()

    def pipeline(a, b):
        x = loom.zeros(2, requires_grad=True)
        loom.launch(mixed, 2, [a, b], [x])
        return x

    assert autograd.gradcheck(pipeline, inputs=[a, b], show_summary=False)
    assert a.numpy().tolist() == [1.0, -2.0]


def test_a_wrong_derivative_is_found(capsys):
    a, _, x = arrays()
    with pytest.raises(ValueError, match="wrongly: x by a: largest error"):
        autograd.gradcheck(wrongly, dim=2, inputs=[a], outputs=[x])
    assert "does not agree with differences" in capsys.readouterr().out
    assert not autograd.gradcheck(wrongly, dim=2, inputs=[a], outputs=[x], raise_exception=False, show_summary=False)


def test_launches_of_a_tape_are_checked():
    a, b, x = arrays()
    with loom.Tape() as tape:
        loom.launch(mixed, 2, [a, b], [x])
        loom.launch(wrongly, 2, [a], [x])
    assert not autograd.gradcheck_tape(tape, raise_exception=False, show_summary=False)
    assert autograd.gradcheck_tape(tape, blacklist_kernels=["wrongly"], show_summary=False)
    assert autograd.gradcheck_tape(tape, whitelist_kernels=["mixed"], show_summary=False)


def test_kernels_without_derivatives_are_refused():
    @loom.kernel(enable_backward=False)
    def off(a: loom.array(dtype=float), x: loom.array(dtype=float)):
        x[loom.tid()] = a[loom.tid()]

    a, _, x = arrays()
    with pytest.raises(ValueError, match="backward pass enabled"):
        autograd.jacobian(off, dim=2, inputs=[a], outputs=[x])
    found = autograd.jacobian_fd(off, dim=2, inputs=[a], outputs=[x])
    np.testing.assert_allclose(found[0, 0].numpy(), np.eye(2), atol=1e-2)
