"""What programs written for Warp call outside kernels: devices, options of modules, timers, views and copies."""

import os
import pickle
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest


def test_the_cpu_is_the_device_unless_another_is_named():
    cpu = loom.get_device()
    assert cpu == "cpu" and str(cpu) == "cpu" and isinstance(cpu, loom.Device)
    assert (cpu.is_cpu, cpu.is_cuda, cpu.alias, cpu.ordinal) == (True, False, "cpu", -1)
    assert 0 < cpu.free_memory <= cpu.total_memory
    assert loom.get_devices()[0] is cpu and loom.is_cpu_available()
    assert loom.get_device("cpu") is cpu and loom.get_device(cpu) is cpu
    assert loom.get_cuda_device_count() == len(loom.get_cuda_devices()) == len(loom.get_devices()) - 1
    assert loom.is_device_available(cpu) and not loom.is_device_available("cuda:99")
    assert pickle.loads(pickle.dumps(cpu)).is_cpu


@pytest.mark.parametrize("use", ["get_device", "set_device", "ScopedDevice", "synchronize_device", "force_load"])
def test_other_devices_are_named_as_missing(use):
    with pytest.raises(loom.DeviceError, match="device 'cuda:99' is not available: "):
        getattr(loom, use)("cuda:99")
    with pytest.raises(ValueError, match="device 'gpu' is not available: devices are 'cpu', 'sim:0'"):
        getattr(loom, use)("gpu")
    with pytest.raises(TypeError, match="not by int"):
        getattr(loom, use)(0)


def test_devices_are_taken_where_their_names_are():
    @loom.kernel
    def one(x: loom.array(dtype=float)):
        x[loom.tid()] = 1.0

    with loom.ScopedDevice("cpu") as device:
        x = loom.zeros(3, device=device)
        loom.launch(one, 3, [x], device=x.device)
    loom.synchronize_device(device)
    assert x.list() == [1, 1, 1] and x.to("cpu") is x
    with pytest.raises(loom.DeviceError, match="'cuda:99' is not available"):
        loom.zeros(3, device="cuda:99")


def test_options_of_modules_are_kept():
    loom.set_module_options({"enable_backward": False})
    loom.set_module_options({"max_unroll": 4})
    kept = loom.get_module_options()
    assert (kept["enable_backward"], kept["max_unroll"]) == (False, 4)
    module = loom.get_module(__name__)
    assert module.options == loom.get_module_options(sys.modules[__name__])
    assert loom.get_module_options("another")["enable_backward"] is True
    loom.load_module(module, device="cpu")
    loom.force_load(["cpu"], modules=[module])


def test_timers_measure_and_nest(capsys):
    times = {}
    with loom.ScopedTimer("outer", dict=times) as outer:
        with loom.ScopedTimer("inner", dict=times):
            pass
        with loom.ScopedTimer("silent", print=False):
            pass
        with loom.ScopedTimer("inactive", active=False, dict=times):
            pass
    assert list(times) == ["inner", "outer"] and times["outer"] == [outer.elapsed]
    assert 0 < times["inner"][0] < outer.elapsed
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("    inner took ") and lines[1] == f"outer took {outer.elapsed:.2f} ms"


def test_detailed_timers_profile(capsys):
    with loom.ScopedTimer("sum", detailed=True):
        sum(range(10))
    assert "function calls" in capsys.readouterr().out


def test_the_cache_on_disk_is_cleared(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import polyloom as loom

@loom.kernel
def k(x: loom.array(dtype=float)):
    x[loom.tid()] = 1.0

loom.launch(k, 1, [loom.zeros(1)])
""")
    cache = tmp_path / "cache"
    (cache / "ab").mkdir(parents=True)
    (cache / "ab" / "notes.txt").write_text("not an entry")
    environment = os.environ | {"POLYLOOM_CACHE_DIR": str(cache), "POLYLOOM_CACHE": "1"}

    def files():
        return {path.name for path in cache.rglob("*") if path.is_file()}

    subprocess.run([sys.executable, str(program)], env=environment, check=True)
    assert len(files()) > 1
    clear = "import polyloom; polyloom.clear_kernel_cache()"
    subprocess.run([sys.executable, "-c", clear], env=environment, check=True)
    assert files() == {"notes.txt"}


def test_reshape_flatten_and_views_share_memory():
    a = loom.array(np.arange(12), dtype=float)
    b = a.reshape((3, -1))
    assert b.shape == (3, 4) and b.ptr == a.ptr
    b[1, 2] = -1
    assert a[6] == -1 and b.flatten().shape == (12,)
    v = loom.zeros((2, 6), dtype=loom.vec3).reshape(12)
    assert v.shape == (12,) and v.dtype is loom.vec3
    bits = loom.ones(2, dtype=float).view(loom.uint32)
    assert bits.list() == [0x3F800000] * 2
    assert loom.zeros(4, dtype=loom.vec4).view(loom.quat).dtype is loom.quat
    assert loom.zeros(4, dtype=loom.vec2).view(loom.float64).shape == (4,)
    with pytest.raises(RuntimeError, match=r"cannot reshape array of shape \(12,\) \(size 12\) into shape \(5, -1\)"):
        a.reshape((5, -1))
    with pytest.raises(TypeError, match="source dtype has size 4 bytes, but target dtype has size 8 bytes"):
        a.view(loom.float64)


def test_arrays_that_are_not_contiguous():
    a = loom.array(np.arange(6).reshape(2, 3), dtype=int)
    t = a.transpose()
    assert t.shape == (3, 2) and t.ptr == a.ptr and not t.is_contiguous and t.T.is_contiguous
    assert t.list() == [0, 3, 1, 4, 2, 5]
    assert a.contiguous() is a and t.contiguous().ptr != a.ptr and t.contiguous().is_contiguous
    for method, argument in ((t.reshape, 6), (t.view, loom.float32)):
        with pytest.raises(ValueError, match="array.contiguous()"):
            method(argument)
    m = loom.zeros((2, 3, 4), dtype=loom.vec3).transpose((2, 0, 1))
    assert m.shape == (4, 2, 3) and m.numpy().shape == (4, 2, 3, 3)
    with pytest.raises(ValueError, match="0 to 1, each once"):
        a.transpose((0, 0))
    assert a.capacity == 24 and a[:, 1].capacity == 16 and loom.zeros(0).capacity == 0


def test_elements_as_a_list():
    assert loom.array([[1, 2], [3, 4]], dtype=loom.vec2).list() == [loom.vec2(1, 2), loom.vec2(3, 4)]
    assert loom.array([1.5, 2.5], dtype=loom.bfloat16).list() == [1.5, 2.5]
    assert [type(x) for x in loom.array([1], dtype=loom.int64).list()] == [int]


def test_copies_of_parts():
    a, b = loom.array([1.0, 2.0, 3.0, 4.0]), loom.zeros(6)
    loom.copy(b, a, dest_offset=1, src_offset=1, count=2)
    assert b.list() == [0, 2, 3, 0, 0, 0]
    loom.copy(b, a)
    assert b.list() == [1, 2, 3, 4, 0, 0]
    loom.copy(b.reshape((2, 3)), a, dest_offset=3, count=3)
    assert b.list() == [1, 2, 3, 1, 2, 3]
    grid = loom.zeros((2, 2))
    loom.copy(grid, a.reshape((2, 2)).transpose())
    assert grid.list() == [1, 3, 2, 4]
    n = np.zeros(4, np.float32)
    loom.copy(n, a)
    assert n.tolist() == [1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="copying 4 elements from number 3 exceeds the destination size, 6"):
        loom.copy(b, a, dest_offset=3)
    with pytest.raises(RuntimeError, match="Destination offset must be non-negative"):
        loom.copy(b, a, dest_offset=-1)
    with pytest.raises(TypeError, match="stream is a Stream, not int"):
        loom.copy(b, a, stream=1)


def test_arrays_over_memory_at_an_address():
    memory = np.arange(12, dtype=np.float32)
    a = loom.from_ptr(memory.ctypes.data, 12, dtype=float)
    a[3] = 100
    assert memory[3] == 100
    v = loom.array(ptr=memory.ctypes.data, dtype=loom.vec2, shape=(2, 3))
    assert v.shape == (2, 3) and v[1, 0] == loom.vec2(6, 7)
    every_other = loom.array(ptr=memory.ctypes.data, dtype=float, shape=3, strides=8)
    assert every_other.list() == [0, 2, 4]
    m = loom.from_ptr(memory.ctypes.data, 0, dtype=loom.mat22, shape=3)
    assert m[2] == loom.mat22(8, 9, 10, 11)
    with pytest.raises(ValueError, match="no array at address 0"):
        loom.from_ptr(0, 3)
    with pytest.raises(TypeError, match="takes a shape and no data"):
        loom.array([1.0], ptr=memory.ctypes.data, shape=1)


def test_what_warps_constructors_take():
    a = loom.zeros(2, dtype=float, device="cpu", requires_grad=True, pinned=True)
    assert a.requires_grad and not a.grad.numpy().any()
    assert loom.zeros_like(a).requires_grad and not loom.empty_like(a, requires_grad=False).requires_grad
    assert loom.array([1.0], requires_grad=True).requires_grad and not loom.ones(1).requires_grad
    assert loom.clone(a, device="cpu", pinned=False).shape == (2,)
    assert loom.full(shape=3, value=2, dtype=float).list() == [2, 2, 2]
    assert loom.from_numpy(np.zeros((4, 3)), shape=4).dtype is loom.vec3d
    assert loom.from_numpy(np.zeros((4, 2, 2), np.float32), shape=(4,)).dtype is loom.mat22
    assert loom.from_numpy(np.zeros((4, 3)), shape=12).shape == (12,)


def test_warps_settings_may_be_set():
    assert loom.config.mode == ("debug" if loom.config.check else "release")
    before = loom.config.check
    try:
        loom.config.mode = "debug"
        assert loom.config.check
        loom.config.mode = "release"
        assert not loom.config.check
    finally:
        loom.config.check = before
    loom.config.quiet = True
    assert loom.config.quiet
    loom.config.quiet = None
    with pytest.raises(ValueError, match="mode is 'debug' or 'release', not 'fast'"):
        loom.config.mode = "fast"
    with pytest.raises(AttributeError, match="config has no setting 'chekc'"):
        loom.config.chekc = True


def test_what_programs_for_warp_ask_of_kernels_and_arrays():
    @loom.func
    def half(x: float):
        return 0.5 * x

    @loom.kernel
    def halve(a: loom.array(dtype=float)):
        a[loom.tid()] = half(a[loom.tid()])

    assert (halve.key, half.key) == ("halve", "half")
    assert str(loom.array([1.0, 2.0])) == "[1. 2.]"
    assert repr(loom.array([1.0, 2.0])) == "array([1., 2.], dtype=float32)"


def test_what_there_is_not_says_why():
    for name, reason in [
        ("Mesh", "geometry"),
        ("tile_load", "tiles"),
    ]:
        with pytest.raises(NotImplementedError, match=f"polyloom.{name} is not there: Polyloom is without {reason}"):
            getattr(loom, name)()
    with pytest.raises(AttributeError, match="no attribute 'kernle'$"):
        loom.kernle  # noqa: B018


def test_launches_take_what_warps_take():
    @loom.kernel
    def one(x: loom.array(dtype=float)):
        x[loom.tid()] = 1.0

    x = loom.zeros(3)
    loom.launch(one, dim=3, inputs=[x], adj_inputs=[], block_dim=64, max_blocks=2, record_tape=False, stream=None)
    assert x.list() == [1, 1, 1]
    recorded = loom.launch(one, dim=3, inputs=[x], block_dim=64, record_cmd=True)
    x.zero_()
    recorded.launch()
    assert x.list() == [1, 1, 1]
    for keywords in ({"adj_inputs": [x]}, {"adj_outputs": [x]}):
        with pytest.raises(ValueError, match="are gradients, for adjoint=True"):
            loom.launch(one, 3, [x], **keywords)
    with pytest.raises(TypeError, match="stream is a polyloom.Stream, not str"):
        loom.launch(one, 3, [x], stream="cuda:0")


def test_kernels_are_made_by_their_class():
    def make(factor):
        V = loom.types.vector(2, float)  # noqa: N806 - a type

        def scale(x: loom.array(dtype=V)):
            i = loom.tid()
            x[i] = factor * x[i]

        return loom.Kernel(func=scale, key=f"scale_{factor}", module=loom.get_module(__name__))

    for factor in (2.0, 3.0):
        kernel, x = make(factor), loom.ones(2, dtype=loom.vec2)
        loom.launch(kernel, 2, [x])
        assert x[1] == loom.vec2(factor) and isinstance(kernel, loom.Kernel)
    assert not isinstance(x, loom.Kernel)
    with pytest.raises(TypeError, match="takes a Python function, not 3"):
        loom.Kernel(3)


def test_large_arrays_become_zero_and_nothing_else():
    # Over a mebibyte all threads take part.
    base = np.ones((3, 700, 600), np.float32)
    loom.array(base, copy=False)[1].zero_()
    assert (base[[0, 2]] == 1.0).all()
    assert not base[1].any()
    turned = loom.array(base[2].T, copy=False)
    turned.fill_(0)
    assert (base[0] == 1.0).all()
    assert not base[2].any()
    bodies = loom.ones(300_000, dtype=loom.vec3)
    bodies.zero_()
    assert not bodies.numpy().any()


def test_views_with_negative_strides_have_the_bytes_that_they_have():
    base = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for view in (base, base[::-1], base[:, ::-2, 1:3], base[1, :, ::-1], base[:0], base[1, 2, 3:], base[0, 0, 0:1]):
        wanted = np.lib.array_utils.byte_bounds(view) if view.size else (0, 0)
        lo, n_bytes = loom._native.span(view)
        assert (lo, lo + n_bytes) == wanted
