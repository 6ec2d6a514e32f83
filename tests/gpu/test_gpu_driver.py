"""What the driver says of a CUDA device, and other packages' arrays on it."""

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


def test_what_the_device_is(cuda):
    assert loom.is_cuda_available() and cuda in loom.get_devices() and loom.get_preferred_device() == "cuda:0"
    assert cuda.is_cuda and cuda.ordinal == 0 and cuda.arch >= 75 and cuda.name and cuda.sm_count > 0
    assert 0 < cuda.free_memory <= cuda.total_memory
    assert loom.get_cuda_device() == cuda and loom.get_cuda_device_count() == len(loom.get_cuda_devices())


def test_memory_is_given_back(cuda):
    loom.synchronize()
    before = cuda.free_memory
    big = loom.zeros(256 << 20, dtype=loom.uint8)
    assert cuda.free_memory <= before - (200 << 20)
    del big
    assert cuda.free_memory >= before - (64 << 20)


def test_numbers_of_devices(cuda):
    n = loom.get_cuda_device_count()
    with pytest.raises(loom.DeviceError, match=f"device 'cuda:{n}' is not available: there (is one|are {n}) GPU"):
        loom.zeros(1, device=f"cuda:{n}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64", "bool"])
def test_element_types_of_pytorch(cuda, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch knows no CUDA")
    x = torch.arange(6, device="cuda").reshape(2, 3).to(getattr(torch, dtype))
    seen = loom.from_torch(x)
    assert (seen.dtype, seen.shape, seen.device) == (getattr(loom, dtype), (2, 3), cuda)
    assert torch.equal(loom.to_torch(seen), x)


def test_arrays_of_pytorch(cuda):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch knows no CUDA")
    x = torch.arange(8, dtype=torch.float32, device="cuda")
    y = loom.ones(8)
    loom.launch(saxpy, 8, [2.0, x, y])
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * np.arange(8))
    seen = loom.from_torch(x)
    assert seen.device == cuda and seen.ptr == x.data_ptr()
    back = loom.to_torch(y)
    assert back.data_ptr() == y.ptr and back.sum().item() == y.numpy().sum()


def test_arrays_of_cupy(cuda):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    x = cupy.arange(8, dtype=cupy.float32)
    y = cupy.ones(8, dtype=cupy.float32)
    loom.launch(saxpy, 8, [2.0, x, y])
    loom.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(y), 1 + 2 * np.arange(8))
    assert cupy.asarray(loom.from_dlpack(y)).data.ptr == y.data.ptr
