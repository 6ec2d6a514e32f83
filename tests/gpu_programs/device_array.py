"""Arrays on a CUDA device for tests: what Triton wants of a tensor, and copies from and to NumPy.

The driver is called through ctypes, by its C interface, as any program does.
"""

import ctypes

import numpy as np

_driver = ctypes.CDLL("libcuda.so.1")


def check(error):
    if error != 0:
        name = ctypes.c_char_p()
        _driver.cuGetErrorName(error, ctypes.byref(name))
        raise RuntimeError(f"the driver says {name.value.decode() if name.value else error}")


def start():
    """Makes the primary context of the first device the current one."""
    check(_driver.cuInit(0))
    context = ctypes.c_void_p()
    check(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(_driver.cuCtxSetCurrent(context))


def synchronize():
    check(_driver.cuCtxSynchronize())


class DeviceArray:
    """A dense array in device memory."""

    def __init__(self, shape, dtype="float32"):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.numpy_dtype = np.dtype(dtype)
        self.n_bytes = int(np.prod(self.shape)) * self.numpy_dtype.itemsize
        address = ctypes.c_uint64()
        check(_driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(self.n_bytes, 1))))
        self.address = address.value

    @classmethod
    def of(cls, values):
        """Copies a NumPy array to the device."""
        values = np.ascontiguousarray(values)
        made = cls(values.shape, values.dtype)
        check(
            _driver.cuMemcpyHtoD_v2(
                ctypes.c_uint64(made.address), values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(made.n_bytes)
            )
        )
        return made

    def numpy(self):
        """Copies it to the host."""
        values = np.empty(self.shape, self.numpy_dtype)
        check(
            _driver.cuMemcpyDtoH_v2(
                values.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(self.address), ctypes.c_size_t(self.n_bytes)
            )
        )
        return values

    def data_ptr(self):
        return self.address

    @property
    def dtype(self):
        """The element type by the name that Triton parses."""
        return str(self.numpy_dtype)

    def stride(self, axis):
        return int(np.prod(self.shape[axis + 1 :]))

    def __del__(self):
        if getattr(self, "address", 0):
            _driver.cuMemFree_v2(ctypes.c_uint64(self.address))
