"""Arrays on devices, launches over them, and devices that are not there."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native
from polyloom._memory import layout

SIM = "sim:0"

NO_GPU = "a CUDA device is there: tests/gpu tests it"


@pytest.fixture(autouse=True)
def plain_settings():
    yield
    loom.sim.configure(arch="sm_80", sanitize="default", counters=False)
    loom.set_device("cpu")


@loom.struct
class Body:
    mass: float
    position: loom.vec3


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.kernel
def drop(bodies: loom.array(dtype=Body), by: float):
    i = loom.tid()
    bodies[i].position.z -= by * bodies[i].mass


@loom.kernel
def transposed(a: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    i, j = loom.tid()
    out[j, i] = a[i, j]


DTYPES = [
    loom.bool, loom.int8, loom.uint8, loom.int16, loom.uint16, loom.int32, loom.uint32, loom.int64, loom.uint64,
    loom.float16, loom.bfloat16, loom.float32, loom.float64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_every_type_goes_there_and_back(dtype):
    host = loom.array([0, 1, 1, 0, 1], dtype=dtype)
    there = host.to(SIM)
    assert there.device == SIM and there.dtype is dtype and there.shape == (5,)
    np.testing.assert_array_equal(there.numpy(), host.numpy())
    assert there[1] == host[1] and there.list() == host.list()
    assert there.to(SIM) is there
    back = there.to("cpu")
    assert back.device == "cpu" and back.list() == host.list()
    assert loom.full(3, 1, dtype=dtype, device=SIM).list() == loom.ones(3, dtype=dtype).list()
    assert loom.zeros(3, dtype=dtype, device=SIM).list() == loom.zeros(3, dtype=dtype).list()


def test_making_arrays_there():
    x = loom.array([[1, 2], [3, 4]], dtype=float, device=SIM)
    assert (x.shape, x.ndim, x.size, x.strides, x.is_contiguous) == ((2, 2), 2, 4, (8, 4), True)
    assert loom.empty((2, 3), dtype=loom.vec3, device=SIM).shape == (2, 3)
    assert loom.zeros_like(x).device == SIM and loom.zeros_like(x, device="cpu").device == "cpu"
    assert loom.full_like(x, 7.0).list() == [7.0] * 4
    assert loom.clone(x).numpy().tolist() == [[1, 2], [3, 4]]
    assert loom.array(x).device == SIM and loom.array(x, copy=False)[0, 1] == 2
    assert loom.array(x, device="cpu").device == "cpu"
    assert loom.from_numpy(np.arange(3), device=SIM).dtype is loom.int64
    assert loom.zeros(0, device=SIM).numpy().shape == (0,)
    assert str(x) == "[[1. 2.]\n [3. 4.]]"
    np.testing.assert_array_equal(np.asarray(x), x.numpy())
    copy = x.numpy()
    copy[:] = 9
    assert x[0, 0] == 1


def test_parts_there_are_views():
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = loom.array(host, device=SIM)
    for index in (np.s_[1], np.s_[1:3], np.s_[::-1, 2:5], np.s_[:, 3], np.s_[::2, ::-2], np.s_[..., 0], np.s_[-1, 1:]):
        part = x[index]
        assert part.device == SIM
        np.testing.assert_array_equal(part.numpy(), host[index])
    assert x[-1, -1] == 23 and isinstance(x[0, 0], np.float32)
    np.testing.assert_array_equal(x.transpose().numpy(), host.T)
    np.testing.assert_array_equal(x.reshape((3, -1)).numpy(), host.reshape(3, 8))
    np.testing.assert_array_equal(x.flatten().view(loom.uint32).numpy(), host.reshape(-1).view(np.uint32))
    np.testing.assert_array_equal(x.transpose().contiguous().numpy(), host.T)
    x[1:3, ::2] = 5
    x[0] = np.arange(6)
    x[3, 5] = -1.0
    host[1:3, ::2], host[0], host[3, 5] = 5, np.arange(6), -1
    np.testing.assert_array_equal(x.numpy(), host)
    x[:, 0].fill_(8)
    host[:, 0] = 8
    np.testing.assert_array_equal(x.numpy(), host)
    np.testing.assert_array_equal(x[[0, 1]].numpy(), host[[0, 1]])
    with pytest.raises(TypeError, match="not by ndarray"):
        x[host > 3] = 0
    with pytest.raises(IndexError):
        x[4]


def test_copies_between_devices():
    host = loom.array(np.arange(6), dtype=float)
    there, other = loom.zeros(6, device=SIM), loom.empty(6, device=SIM)
    loom.copy(there, host)
    loom.copy(other, there)
    loom.copy(other, there, dest_offset=1, src_offset=3, count=2)
    assert other.list() == [0, 3, 4, 3, 4, 5]
    loom.copy(other, other.flatten(), dest_offset=2, src_offset=0, count=4)
    assert other.list() == [0, 3, 0, 3, 4, 3]
    loom.copy(host, other)
    assert host.list() == other.list()
    back = np.zeros(6, np.float32)
    loom.copy(back, there)
    assert back.tolist() == [0, 1, 2, 3, 4, 5]
    other.assign(there[::-1])
    assert other.list() == [5, 4, 3, 2, 1, 0]
    assert there.zero_().list() == [0] * 6


def test_composites_and_structs_there():
    v = loom.array([[1, 2, 3], [4, 5, 6]], dtype=loom.vec3, device=SIM)
    assert v.shape == (2,) and v[1] == loom.vec3(4, 5, 6)
    v[0] = loom.vec3(7, 8, 9)
    assert v.list() == [loom.vec3(7, 8, 9), loom.vec3(4, 5, 6)]
    bodies = loom.zeros(3, dtype=Body, device=SIM)
    one = Body()
    one.mass, one.position = 2.0, (0, 0, 1)
    bodies[1] = one
    assert bodies[1].position == loom.vec3(0, 0, 1) and bodies[0].mass == 0
    loom.launch(drop, 3, [bodies, 0.25], device=SIM)
    assert bodies[1].position == loom.vec3(0, 0, 0.5)
    loom.launch(drop, 3, [bodies, 0.25], device=SIM)
    assert bodies.numpy()["position"][1].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="'bodies' of kernel 'drop' is on device 'sim:0', and the launch is on 'cpu'"):
        loom.launch(drop, 3, [bodies, 0.25])
    with pytest.raises(ValueError, match="is on device 'cpu', and the launch is on 'sim:0'"):
        loom.launch(drop, 3, [bodies.to("cpu"), 0.25], device=SIM)


def test_indexed_arrays_there():
    @loom.kernel
    def negate(a: loom.indexedarray(dtype=float)):
        a[loom.tid()] = -a[loom.tid()]

    data = loom.array([1.0, 2.0, 3.0, 4.0], device=SIM)
    for indices in ([3, 0], loom.array([3, 0], dtype=int)):
        chosen = loom.indexedarray(data, [indices])
        loom.launch(negate, chosen.shape, [chosen], device=SIM)
        assert chosen.numpy().tolist() == [data[3], data[0]]
    assert data.list() == [1, 2, 3, 4]


def test_launches_use_the_arrays_in_place():
    x, y = loom.array(np.arange(8), dtype=float, device=SIM), loom.ones(8, device=SIM)
    host = np.zeros(8, np.float32)
    for _ in range(3):
        loom.launch(saxpy, 8, [2.0, x, y], device=SIM)
    loom.launch(saxpy, 8, [1.0, y, host], device=SIM)
    assert y.list() == [1 + 6 * i for i in range(8)] and host.tolist() == y.list()
    # Views of one array, in part and backwards.
    loom.launch(saxpy, 4, [1.0, x[::-2], y[:4]], device=SIM)
    assert y.list()[:4] == [8, 12, 16, 20]
    out = loom.zeros((3, 2), device=SIM)
    loom.launch(transposed, (2, 3), [loom.array([[1, 2, 3], [4, 5, 6]], dtype=float, device=SIM), out], device=SIM)
    assert out.numpy().tolist() == [[1, 4], [2, 5], [3, 6]]


def test_recorded_launches():
    x, y = loom.ones(4, device=SIM), loom.zeros(4, device=SIM)
    step = loom.launch(saxpy, 4, [1.0, x, y], device=SIM, record_cmd=True)
    step.launch()
    step.set_param_by_name("a", 3.0)
    step.launch()
    assert y.list() == [4] * 4
    with pytest.raises(ValueError, match="'y' of kernel 'saxpy' is on device 'cpu', and the launch is on 'sim:0'"):
        step.set_param_at_index(2, loom.zeros(4))


def test_arrays_of_another_device_are_refused():
    here, there = loom.ones(4), loom.ones(4, device=SIM)
    with pytest.raises(ValueError, match="'x' of kernel 'saxpy' is on device 'sim:0', and the launch is on 'cpu'"):
        loom.launch(saxpy, 4, [1.0, there, here])
    with pytest.raises(ValueError, match="'y' of kernel 'saxpy' is on device 'cpu', and the launch is on 'sim:0'"):
        loom.launch(saxpy, 4, [1.0, there, here], device=SIM)
    with pytest.raises(ValueError, match="is on device"):
        loom.map(loom.add, there, here)
    assert here.list() == there.list() == [1] * 4


def test_overlapping_arrays_there_are_refused_as_here():
    @loom.kernel
    def both(a: loom.array(dtype=float), b: loom.array(dtype=float)):
        i = loom.tid()
        a[i] = 1.0
        b[i] = 2.0

    x = loom.zeros(6, device=SIM)
    with pytest.raises(ValueError, match="overlaps argument 'a' in memory"):
        loom.launch(both, 4, [x[:4], x[2:]], device=SIM)
    loom.launch(both, 3, [x[::2], x[1::2]], device=SIM)
    assert x.list() == [1, 2] * 3


def test_the_sanitizers_know_the_arrays():
    @loom.kernel
    def past(x: loom.array(dtype=float)):
        x[loom.tid() + 1] = 1.0

    with pytest.raises(loom.SanitizerError, match="out-of-bounds access"):
        loom.launch(past, 4, [loom.zeros(4, device=SIM)], device=SIM, unchecked=True)
    loom.sim.configure(sanitize="uninitialised")
    y = loom.zeros(4, device=SIM)
    with pytest.raises(loom.SanitizerError, match="uninitialised"):
        loom.launch(saxpy, 4, [1.0, loom.empty(4, device=SIM), y], device=SIM)
    loom.launch(saxpy, 4, [1.0, loom.zeros(4, device=SIM), y], device=SIM)


def test_memory_outlives_the_array_that_it_was_made_for():
    x = loom.array([1.0, 2.0, 3.0], device=SIM)
    part = x[1:]
    del x
    gc.collect()
    assert part.list() == [2, 3]
    again = loom.array(ptr=part.ptr, shape=2, device=SIM)
    again[0] = 7.0
    assert part.list() == [7, 3]


def test_functions_over_arrays_run_where_the_arrays_are():
    x, y = loom.array([1.0, 2.0, 3.0], device=SIM), loom.array([[10.0], [20.0]], device=SIM)
    total = loom.map(lambda a, b: a + 2.0 * b, x, y)
    assert total.device == SIM and total.numpy().tolist() == [[21, 22, 23], [41, 42, 43]]
    x += x
    assert x.device == SIM and (x * 2.0).list() == [4, 8, 12]
    values = loom.array([3, 1, 2, 2, 0, 0, 0, 0], dtype=int, device=SIM)
    keys = loom.clone(values)
    loom.utils.radix_sort_pairs(keys, values, 4)
    assert keys.list()[:4] == [1, 2, 2, 3]
    loom.utils.array_scan(keys, keys)
    assert keys.list() == [1, 3, 5, 8, 8, 8, 8, 8]
    halves = loom.zeros(8, dtype=loom.float16, device=SIM)
    loom.utils.array_cast(keys, halves)
    assert halves.list() == keys.list()
    assert loom.utils.array_sum(x) == 12 and loom.utils.array_sum(total, axis=0).device == SIM


def test_the_default_device():
    assert loom.get_device() == "cpu" and loom.zeros(1).device == "cpu"
    with loom.ScopedDevice(SIM) as device:
        assert device == "sim:0" and device.is_sim and not device.is_cpu
        y = loom.zeros(3)
        assert y.device == SIM
        loom.launch(saxpy, 3, [2.0, loom.array([1.0, 2.0, 3.0]), y])
        with loom.ScopedDevice("cpu"):
            assert loom.zeros(1).device == "cpu"
        assert loom.get_device() == SIM
    assert y.list() == [2, 4, 6] and loom.get_device() == "cpu"
    loom.set_device("sim")
    assert loom.get_device() == SIM
    loom.synchronize()
    loom.synchronize_device(SIM)


def test_names_that_no_device_has():
    for name in ("gpu", "sim:1", "cuda:x"):
        with pytest.raises(ValueError, match=f"device '{name}' is not available: devices are 'cpu', 'sim:0'"):
            loom.zeros(1, device=name)
        with pytest.raises(ValueError, match="is not available"):
            loom.launch(saxpy, 1, [1.0, np.zeros(1, np.float32), np.zeros(1, np.float32)], device=name)
        assert not loom.is_device_available(name)
    assert loom.is_device_available(SIM) and loom.is_device_available("cpu")
    with pytest.raises(TypeError, match="given by its name"):
        loom.get_device(3)


def test_devices_hold_only_what_they_can_show():
    there = loom.zeros(2, device=SIM)
    assert not hasattr(there, "__array_interface__") and not hasattr(there, "__cuda_array_interface__")
    assert not hasattr(loom.zeros(2), "__cuda_array_interface__")
    with pytest.raises(BufferError, match="not passed on through DLPack"):
        there.__dlpack__()


def test_all_arrays_over_foreign_memory_keep_its_owner():
    class Owner:
        pass

    memory = loom.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=SIM)
    owner = Owner()
    is_alive = weakref.ref(owner)
    foreign = _native.DeviceMemory(SIM, 24, memory.ptr, owner)
    whole = type(memory)._wrap(memory._storage, memory.dtype, foreign)
    arrays = [
        whole[1:],
        whole.reshape(6),
        whole.view(loom.int32),
        whole.transpose(),
        whole._seen_as(None, (3, 2), None),
        whole._elements_as(loom.vec3),
    ]
    del owner, foreign, whole
    while arrays:
        gc.collect()
        assert is_alive() is not None
        arrays.pop().numpy()
    gc.collect()
    assert is_alive() is None
    assert memory[1, 2] == 6.0


def test_layouts_of_foreign_memory_may_go_backwards():
    memory = np.arange(24, dtype=np.int32).reshape(4, 6)
    for part in (memory, memory[::-1], memory[1:, ::-2], memory.T[::-1, 1:3], memory[:0, ::-1]):
        seen = layout(part.ctypes.data, part.shape, part.dtype, part.strides)
        np.testing.assert_array_equal(seen, part)
        start, n_bytes = _native.span(seen)
        # An element's value is its place.
        first, last = (int(part.min()), int(part.max())) if part.size else (0, -1)
        assert n_bytes == 4 * (last + 1 - first)
        assert start == (memory.ctypes.data + 4 * first if part.size else 0)


@pytest.mark.skipif(loom.is_cuda_available(), reason=NO_GPU)
def test_a_missing_gpu_is_an_error_by_all_ways():
    assert loom.get_cuda_devices() == [] and loom.get_cuda_device_count() == 0
    assert loom.get_devices() == ["cpu"] and loom.get_preferred_device() == "cpu"
    assert not loom.is_device_available("cuda:0")
    x = np.zeros(1, np.float32)
    ways = [
        lambda: loom.launch(saxpy, 1, [1.0, x, x.copy()], device="cuda:0"),
        lambda: loom.launch(saxpy, 1, [1.0, x, x.copy()], device="cuda", record_cmd=True).launch(),
        lambda: loom.zeros(1, device="cuda"),
        lambda: loom.array([1.0], device="cuda:0"),
        lambda: loom.zeros(1).to("cuda:3"),
        lambda: loom.array(ptr=4096, shape=1, device="cuda:0"),
        lambda: loom.get_device("cuda:0"),
        lambda: loom.get_cuda_device(),
        lambda: loom.set_device("cuda:0"),
        lambda: loom.ScopedDevice("cuda:0"),
        lambda: loom.synchronize_device("cuda:0"),
    ]
    for way in ways:
        with pytest.raises(loom.DeviceError, match=r"device 'cuda:\d' is not available: .*(driver|GPU)"):
            way()
    assert isinstance(loom.DeviceError("x"), RuntimeError)
    loom.synchronize()


def test_importing_and_launching_on_the_cpu_loads_no_gpu_library():
    script = """
import numpy as np, polyloom as loom
x = loom.zeros(3)
x += 1.0
loaded = open("/proc/self/maps").read()
print([name for name in ("libcuda.so", "libnvJitLink", "libnvrtc") if name in loaded])
"""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_host_sees_them_by_copies_alone():
    x = loom.array([1.0, 2.0], device=SIM)
    with pytest.raises(ValueError, match="an array on sim:0 is not seen by the host without a copy"):
        x.__array__(copy=False)
    for copy in (None, True):
        given = x.__array__(np.float64, copy=copy)
        assert given.dtype == np.float64 and given.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="without a copy"):
        np.array(x, copy=False)


def test_the_environment_tells_build_and_machine():
    found = loom.environment()
    assert found["version"] == loom.__version__ and found["problem"] is None
    processor = found["processor"]
    assert processor["vector_bytes"] in (16, 32, 64) and processor["n_threads"] >= 1
    assert ("avx2" in processor["features"]) == (processor["vector_bytes"] >= 32) or processor[
        "architecture"
    ] != "x86_64"
    assert all(cache["bytes"] > 0 and cache["level"] >= 1 for cache in processor["caches"])
    assert found["cranelift"] and bool(found["gpus"]) == (found["no_gpu"] is None)
    assert found["has_compute"] == (found["llvm"] is not None)
