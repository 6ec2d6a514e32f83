"""Texture and surface objects, made by the driver's C interface, in kernels in PTX. What fetches give is compared with
the formulas of the CUDA C++ Programming Guide ("Texture Fetching")."""

import ctypes
import struct

import numpy as np
import polyloom as loom
import pytest

KERNELS = """
.version 7.0
.target sm_75
.address_size 64

// out[i] = tex2D(texture, at[2 i], at[2 i + 1])
.visible .entry sample(.param .u64 texture, .param .u64 at, .param .u64 out, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd0, [texture];
    ld.param.u64 %rd1, [at];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra done;
    mul.wide.u32 %rd3, %r4, 8;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.v2.f32 {%f0, %f1}, [%rd4];
    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd0, {%f0, %f1}];
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd5, %rd2, %rd3;
    st.global.f32 [%rd5], %f2;
done:
    ret;
}

// out[i] = tex1Dfetch(texture, first + i)
.visible .entry fetch(.param .u64 texture, .param .u64 out, .param .s32 first)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [texture];
    ld.param.u64 %rd1, [out];
    ld.param.s32 %r0, [first];
    mov.u32 %r1, %tid.x;
    add.s32 %r2, %r0, %r1;
    tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd0, {%r2}];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f0;
    ret;
}

// surface[y][x] = 2 * surface[y][x] + 100 * y, of a block of threads that is larger than the surface
.visible .entry change(.param .u64 surface)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd;
    ld.param.u64 %rd, [surface];
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, %ctaid.x;
    suld.b.2d.b32.zero %r3, [%rd, {%r1, %r2}];
    mov.b32 %f0, %r3;
    cvt.rn.f32.u32 %f1, %r2;
    mul.rn.f32 %f2, %f1, 0f42C80000;
    fma.rn.f32 %f3, %f0, 0f40000000, %f2;
    mov.b32 %r3, %f3;
    sust.b.2d.b32.zero [%rd, {%r1, %r2}], %r3;
    ret;
}
"""

FLOAT, SURFACE = 0x20, 0x02
WRAP, CLAMP, MIRROR, BORDER = range(4)
ARRAY, LINEAR, PITCH_2D = 0, 2, 3
HOST, DEVICE_ARRAY = 1, 3


class Driver:
    """The driver's C interface, in the primary context."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        error = getattr(self._library, name)(*arguments)
        assert error == 0, f"{name} returns {error}"

    def made(self, name, *arguments):
        """The 64-bit handle that a call makes."""
        handle = ctypes.c_uint64()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value

    def array(self, values, flags=0):
        """An array with these floats, two axes of them."""
        height, width = values.shape
        array = self.made("cuArray3DCreate_v2", struct.pack("QQQIIIxxxx", width, height, 0, FLOAT, 1, flags))
        self.copy(array, values, to_array=True)
        return array

    def copy(self, array, values, to_array):
        height, width = values.shape
        host = struct.pack("QQIxxxxQQQQ", 0, 0, HOST, values.ctypes.data, 0, 0, 4 * width)
        device = struct.pack("QQIxxxxQQQQ", 0, 0, DEVICE_ARRAY, 0, 0, array, 0)
        sides = host + device if to_array else device + host
        self.call("cuMemcpy2D_v2", sides + struct.pack("QQ", 4 * width, height))

    def texture(self, resource, modes=(CLAMP, CLAMP), is_linear=False, is_normalized=False):
        flags = 2 if is_normalized else 0
        how = (*modes, CLAMP, int(is_linear), flags)
        texture = struct.pack("3IIIIIfff4f12i", *how, 0, 0, 0.0, 0.0, 0.0, *[0.0] * 4, *[0] * 12)
        return self.made("cuTexObjectCreate", resource, texture, None)


def resource(kind, *words):
    """A resource's description, with the words of its union."""
    return struct.pack("Ixxxx16QIxxxx", kind, *words, *[0] * (16 - len(words)), 0)


@pytest.fixture
def driver(cuda):
    loom.synchronize()
    return Driver()


def texel(values, x, y, modes, normalized):
    """The texel at indices that may be beyond the image; zero at a border."""
    place = []
    for index, n, mode in zip((y, x), values.shape, reversed(modes), strict=True):
        if mode in (WRAP, MIRROR) and not normalized:
            mode = CLAMP
        if mode == WRAP:
            index %= n
        elif mode == MIRROR:
            index %= 2 * n
            index = 2 * n - 1 - index if index >= n else index
        elif mode == CLAMP:
            index = min(max(index, 0), n - 1)
        elif not 0 <= index < n:
            return 0.0
        place.append(index)
    return float(values[tuple(place)])


def sampled(values, x, y, modes, is_linear, normalized):
    if normalized:
        x, y = x * values.shape[1], y * values.shape[0]
    if not is_linear:
        return texel(values, int(np.floor(x)), int(np.floor(y)), modes, normalized)
    i, j = int(np.floor(x - 0.5)), int(np.floor(y - 0.5))
    a, b = (np.round((part - 0.5 - np.floor(part - 0.5)) * 256) / 256 for part in (x, y))

    def at(i, j):
        return texel(values, i, j, modes, normalized)

    return (1 - b) * ((1 - a) * at(i, j) + a * at(i + 1, j)) + b * ((1 - a) * at(i, j + 1) + a * at(i + 1, j + 1))


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize("modes", [(CLAMP, BORDER), (WRAP, MIRROR), (MIRROR, CLAMP), (BORDER, WRAP)])
@pytest.mark.parametrize("normalized", [False, True])
def test_fetches_follow_the_guide(driver, is_simulated, modes, is_linear, normalized):
    random = np.random.default_rng(7)
    values = random.uniform(-1, 1, (5, 7)).astype(np.float32)
    array = driver.array(values)
    texture = driver.texture(resource(ARRAY, array), modes, is_linear, normalized)
    # Places that no 256th, nor the edge of a texel, is near to.
    steps = random.integers(-512, 1024, (200, 2)) + 0.3
    at = (steps / 512).astype(np.float32) if normalized else (steps / 512 * [7, 5]).astype(np.float32)
    out = loom.zeros(200)
    loom.GpuModule(KERNELS).kernel("sample").launch(2, 128, [np.uint64(texture), loom.array(at), out, np.uint32(200)])
    expected = [sampled(values, float(x), float(y), modes, is_linear, normalized) for x, y in at]
    # A GPU may round weights in another way where a coordinate is nearly between two of them.
    near = 2e-6 if is_simulated("cuda:0") or not is_linear else 2 / 256 * 2
    np.testing.assert_allclose(out.numpy(), expected, atol=near)
    driver.call("cuTexObjectDestroy", ctypes.c_uint64(texture))
    driver.call("cuArrayDestroy", ctypes.c_void_p(array))


def test_plain_memory_is_fetched_by_index(driver):
    x, out = loom.array(np.arange(1, 33, dtype=np.float32)), loom.full(8, 9.0)
    texture = driver.texture(resource(LINEAR, x.ptr, FLOAT | 1 << 32, 16 * 4))
    kernel = loom.GpuModule(KERNELS).kernel("fetch")
    kernel.launch(1, 8, [np.uint64(texture), out, np.int32(12)])
    # Beyond the texture's end there are zeros, though memory goes on.
    assert out.numpy().tolist() == [13.0, 14.0, 15.0, 16.0, 0.0, 0.0, 0.0, 0.0]
    driver.call("cuTexObjectDestroy", ctypes.c_uint64(texture))


def test_surfaces_are_read_and_written(driver):
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    array = driver.array(values, SURFACE)
    surface = driver.made("cuSurfObjectCreate", resource(ARRAY, array))
    loom.GpuModule(KERNELS).kernel("change").launch(4, 32, [np.uint64(surface)])
    loom.synchronize()
    found = np.zeros_like(values)
    driver.copy(array, found, to_array=False)
    np.testing.assert_array_equal(found, 2 * values + 100 * np.arange(3)[:, None])
    driver.call("cuSurfObjectDestroy", ctypes.c_uint64(surface))
    driver.call("cuArrayDestroy", ctypes.c_void_p(array))
