"""Memory shared with other packages. PyTorch and JAX are stood in for by modules that do what is used of them."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import polyloom as loom
import pytest


class Tensor:
    """As much of a PyTorch tensor as `from_torch` uses."""

    def __init__(self, values, requires_grad=False):
        self.values = values
        self.requires_grad = requires_grad
        self.is_leaf, self.grad = True, None

    def detach(self):
        return Tensor(self.values)

    def requires_grad_(self, value):
        self.requires_grad = value

    def __dlpack__(self, **options):
        if self.requires_grad:
            raise BufferError("a tensor that requires gradients")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


@pytest.fixture
def packages(monkeypatch):
    torch, jax = ModuleType("torch"), ModuleType("jax")
    torch.from_dlpack = lambda source: Tensor(np.from_dlpack(source))
    torch.zeros_like = lambda tensor: Tensor(np.zeros_like(tensor.values))
    torch.float32 = type("dtype", (), {"__repr__": lambda self: "torch.float32"})()
    jax.numpy, jax.dlpack = ModuleType("jax.numpy"), ModuleType("jax.dlpack")
    jax.numpy.bool_, jax.numpy.float16 = np.bool_, np.float16
    jax.dlpack.from_dlpack = np.from_dlpack
    jax.devices = lambda platform: [f"{platform} 0"]
    for module in (torch, jax, jax.numpy, jax.dlpack):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_types_of_numpy():
    for dtype in (loom.bool, loom.int8, loom.uint64, loom.float16, loom.float64):
        assert loom.dtype_from_numpy(loom.dtype_to_numpy(dtype)) is dtype
    assert loom.dtype_from_numpy(np.byte) is loom.int8 and loom.dtype_to_numpy(float) is np.float32
    with pytest.raises(TypeError, match="vec3 is no scalar type: its components are of type float32"):
        loom.dtype_to_numpy(loom.vec3)
    with pytest.raises(TypeError, match="complex128"):
        loom.dtype_from_numpy(np.complex128)


def test_dlpack_shares_memory():
    x = np.zeros((4, 3), np.float32)
    a = loom.from_dlpack(Tensor(x), dtype=loom.vec3)
    a[2] = (1, 2, 3)
    assert a.shape == (4,) and x[2].tolist() == [1, 2, 3]
    assert np.from_dlpack(a).ctypes.data == x.ctypes.data
    assert type(loom.to_dlpack(a)).__name__ == "PyCapsule"


def test_tensors(packages):
    x = np.zeros(3, np.float32)
    source = Tensor(x, requires_grad=True)
    a = loom.from_torch(source)
    a.fill_(2)
    assert x.tolist() == [2, 2, 2] and a.requires_grad
    a.grad.fill_(3)
    assert source.grad.values.tolist() == [3, 3, 3]
    given = loom.from_torch(Tensor(x), grad=Tensor(np.full(3, 4, np.float32)))
    assert given.requires_grad and given.grad.list() == [4, 4, 4]
    assert not loom.from_torch(Tensor(x, requires_grad=True), requires_grad=False).requires_grad
    t = loom.to_torch(a)
    assert t.values.ctypes.data == x.ctypes.data and t.requires_grad
    assert t.grad.values.tolist() == [3, 3, 3] and not t.grad.requires_grad
    assert str(loom.dtype_to_torch(loom.float32)) == "torch.float32"
    assert loom.dtype_from_torch(loom.dtype_to_torch(loom.float32)) is loom.float32
    with pytest.raises(TypeError, match="torch has no type uint64"):
        loom.dtype_to_torch(loom.uint64)
    assert loom.device_from_torch("cpu") == loom.device_to_torch(None) == "cpu"
    with pytest.raises(loom.DeviceError, match="'cuda:99' is not available"):
        loom.device_from_torch("cuda:99")


def test_jax_arrays(packages):
    x = np.ones((2, 2), np.float32)
    x.flags.writeable = False
    a = loom.from_jax(x, dtype=loom.vec2)
    assert a[0] == loom.vec2(1)
    assert loom.to_jax(loom.ones(2)).tolist() == [1, 1]
    assert loom.dtype_from_jax(np.dtype(np.int32)) is loom.int32
    assert loom.dtype_to_jax(loom.bool) is np.bool_ and loom.dtype_to_jax(loom.float16) is np.float16
    assert loom.device_to_jax("cpu") == "cpu 0"
    assert loom.device_from_jax(SimpleNamespace(platform="cpu")) == "cpu"
