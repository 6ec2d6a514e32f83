"""Arrays on a GPU that other packages share, in order with streams. The packages here are stand-ins of a few lines;
PyTorch and CuPy themselves are in test_gpu_driver."""

import gc

import polyloom as loom
import pytest


@loom.kernel
def add(x: loom.array(dtype=float), value: float):
    i = loom.tid()
    x[i] = x[i] + value


class ByDlpack:
    """An array of another package that knows DLPack alone."""

    def __init__(self, array):
        self._array = array
        self.asked = []

    def __dlpack__(self, **options):
        self.asked.append(options.get("stream"))
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("dtype", [loom.float32, loom.float64, loom.int8, loom.uint16, loom.bool, loom.bfloat16])
def test_dlpack_goes_there_and_back(cuda, dtype):
    x = loom.zeros((3, 4), dtype=dtype)
    x[1, 2] = 1
    source = ByDlpack(x)
    y = loom.from_dlpack(source)
    assert (y.ptr, y.shape, y.dtype, y.device) == (x.ptr, (3, 4), dtype, cuda) and source.asked == [1]
    assert x.__dlpack_device__() == (2, 0)
    y[0, 0] = 1
    assert x[0, 0] == 1 and y[1, 2] == 1
    part = loom.from_dlpack(ByDlpack(x[::2, 1:]))
    assert part.shape == (2, 3) and part.strides == x[::2, 1:].strides
    del x, source, y
    gc.collect()
    loom.zeros((3, 4), dtype=dtype)
    assert part.numpy().shape == (2, 3)


def test_dlpack_has_the_stream(cuda):
    stream, x = loom.Stream(cuda), loom.zeros(1000)
    with loom.ScopedStream(stream):
        loom.launch(add, 1000, [x, 1.0])
        source = ByDlpack(x)
        loom.launch(add, 1000, [loom.from_dlpack(source), 1.0])
        assert source.asked == [stream.cuda_stream]
    for handle in (None, 1, 2, -1, stream.cuda_stream):
        assert "dltensor" in repr(x.__dlpack__(stream=handle))
    assert x.numpy()[0] == 2.0
    points = loom.from_dlpack(ByDlpack(loom.zeros((5, 3))), dtype=loom.vec3)
    assert points.shape == (5,) and points.dtype is loom.vec3


def test_managed_memory_is_told(cuda):
    x = loom.managed(8)
    assert x.__dlpack_device__() == (13, 0)
    x.fill_(3.0)
    assert loom.from_dlpack(ByDlpack(x)).numpy().tolist() == [3.0] * 8


def test_simulated_memory_is_not_passed_on():
    with pytest.raises(BufferError, match="not passed on through DLPack"):
        loom.zeros(3, device="sim:0").__dlpack__()
