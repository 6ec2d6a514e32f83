"""Code of other compilers on a GPU, and what the driver says of kernels."""

import weakref

import numpy as np
import polyloom as loom
import pytest

ADD = """
.version 7.0
.target sm_75
.address_size 64

.visible .entry add(.param .u64 x, .param .f32 value, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [x];
    ld.param.f32 %f0, [value];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra done;
    cvta.to.global.u64 %rd1, %rd0;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.rn.f32 %f2, %f1, %f0;
    st.global.f32 [%rd3], %f2;
done:
    ret;
}

// Each block counts itself, waits for all, and writes how many it has seen.
.visible .entry meet(.param .u64 counter, .param .u64 seen)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd0, [counter];
    ld.param.u64 %rd1, [seen];
    cvta.to.global.u64 %rd2, %rd0;
    cvta.to.global.u64 %rd3, %rd1;
    mov.u32 %r0, %nctaid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r5, %tid.x;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra done;
    atom.global.add.u32 %r2, [%rd2], 1;
wait:
    atom.global.add.u32 %r3, [%rd2], 0;
    setp.lt.u32 %p0, %r3, %r0;
    @%p0 bra wait;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    st.global.u32 [%rd5], %r3;
done:
    ret;
}

// Threads write to shared memory from an offset on, and read what their neighbours wrote.
.extern .shared .align 4 .b8 room[];
.visible .entry turn(.param .u64 out, .param .u32 offset)
.maxntid 64, 1, 1
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [out];
    ld.param.u32 %r0, [offset];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, room;
    add.u32 %r3, %r2, %r0;
    mad.lo.u32 %r4, %r1, 4, %r3;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    xor.b32 %r5, %r1, 63;
    mad.lo.u32 %r6, %r5, 4, %r3;
    ld.shared.u32 %r7, [%r6];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
    ret;
}
"""


@loom.kernel
def scale(x: loom.array(dtype=float), factor: float):
    x[loom.tid()] *= factor


def test_code_of_another_compiler_is_launched(cuda):
    kernel = loom.GpuModule(ADD).kernel("add")
    x, stream = loom.zeros(1000), loom.Stream(cuda)
    kernel.launch(4, 256, [x, 1.5, 1000])
    kernel.launch((4, 1, 1), 256, [x, np.float32(1.5), np.uint32(500)], stream=stream)
    loom.launch(scale, 1000, [x, 2.0])
    np.testing.assert_array_equal(x.numpy(), [6.0] * 500 + [3.0] * 500)
    with loom.ScopedCapture(cuda) as capture:
        kernel.launch(4, 256, [x, 1.0, 1000])
    loom.capture_launch(capture.graph)
    assert x.numpy()[0] == 7.0


def test_an_image_is_loaded_once(cuda):
    module = loom.GpuModule(ADD)
    assert loom.GpuModule(ADD.encode()) is module and loom.GpuModule(ADD, cuda) is module
    assert module.kernel("add") is module.kernel("add")
    kernel, module = module.kernel("add"), weakref.ref(module)
    assert loom.GpuModule(ADD) is module()
    del kernel
    assert module() is None and loom.GpuModule(ADD).kernel("add").name == "add"
    with pytest.raises(loom.DeviceError, match="finds no kernel `absent`"):
        loom.GpuModule(ADD).kernel("absent")
    with pytest.raises(loom.DeviceError):
        loom.GpuModule(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k( {")
    with pytest.raises(ValueError, match="polyloom.sim.Module"):
        loom.GpuModule(ADD, "sim:0")


def test_arguments_are_checked(cuda):
    kernel, x = loom.GpuModule(ADD).kernel("add"), loom.zeros(8)
    with pytest.raises(TypeError, match="takes 3 arguments, not 1"):
        kernel.launch(1, 32, [x])
    with pytest.raises(TypeError, match="argument 1 of kernel 'add' takes 4 bytes"):
        kernel.launch(1, 32, [x, np.float64(1.0), 8])
    with pytest.raises(ValueError, match="argument 0 is on device 'cpu'"):
        kernel.launch(1, 32, [loom.zeros(8, device="cpu"), 1.0, 8])
    with pytest.raises(ValueError, match="in blocks of up to 1024 threads"):
        kernel.launch(1, 2048, [x, 1.0, 8])
    with pytest.raises(ValueError, match="bytes of shared memory"):
        kernel.launch(1, 32, [x, 1.0, 8], shared_bytes=1 << 30)
    with pytest.raises(TypeError, match="is no array of a GPU"):
        kernel.launch(1, 32, ["x", 1.0, 8])
    with pytest.raises(ValueError, match=r"argument 0 of kernel 'add' is an array with strides \(8,\)"):
        kernel.launch(1, 32, [loom.zeros(16)[::2], 1.0, 8])
    with pytest.raises(TypeError, match=r"argument 2 of kernel 'add': parameter '\w+' is \.u32, not 8\.0"):
        kernel.launch(1, 32, [x, 1.0, 8.0])
    assert not x.numpy().any()


def test_numbers_of_python_become_the_type_of_the_parameter(cuda):
    x = loom.zeros(8)
    loom.GpuModule(ADD).kernel("add").launch(1, 32, [x, 3, True])
    assert x.numpy().tolist() == [3.0] + [0.0] * 7
    # A fat binary does not say what is a float.
    kernel = loom.GpuModule(scale.fatbin([f"sm_{cuda.arch}"])).kernel("scale_cuda_kernel_forward")
    launch = np.array([8, 1, 1, 1, 0], np.uint64).tobytes()
    view = np.array([x.ptr, 8, 4], np.uint64).tobytes()
    for number in (3, 3.0):
        with pytest.raises(TypeError, match=r"argument 2 .* does not say what type .* np.float32\(1\)"):
            kernel.launch(1, 32, [launch, view, number])
    kernel.launch(1, 32, [launch, view, np.float32(3.0)])
    assert x.numpy()[0] == 9.0


def test_a_cooperative_launch_may_wait_for_its_grid(cuda):
    kernel = loom.GpuModule(ADD).kernel("meet")
    counter, seen = loom.zeros(1, dtype=loom.uint32), loom.zeros(16, dtype=loom.uint32)
    kernel.launch(16, 32, [counter, seen], cooperative=True)
    assert seen.numpy().tolist() == [16] * 16
    with pytest.raises(loom.DeviceError, match="cannot launch the kernel"):
        kernel.launch(1 << 20, 32, [counter, seen], cooperative=True)


def test_shared_memory_beyond_48_kib(cuda):
    kernel, out = loom.GpuModule(ADD).kernel("turn"), loom.zeros(64, dtype=loom.uint32)
    most = kernel.attributes["dynamic_shared_bytes"]
    assert most > 48 << 10 and kernel.occupancy(64, most) == 1
    kernel.launch(1, 64, [out, most - 256], shared_bytes=most)
    assert out.numpy().tolist() == list(range(63, -1, -1))
    with pytest.raises(ValueError, match=f"may ask for {most} bytes of shared memory"):
        kernel.launch(1, 64, [out, 0], shared_bytes=most + 4)


def test_launch_bounds(cuda):
    kernel, out = loom.GpuModule(ADD).kernel("turn"), loom.zeros(64, dtype=loom.uint32)
    assert kernel.attributes["threads_per_block"] == 64 and kernel.suggested_block()[0] <= 64
    with pytest.raises(ValueError, match="in blocks of up to 64 threads, and 65 are 65"):
        kernel.launch(1, 65, [out, 0], shared_bytes=1024)


def test_attributes_and_occupancy(cuda):
    kernel = loom.GpuModule(ADD).kernel("add")
    assert kernel.attributes["threads_per_block"] == 1024 and kernel.attributes["shared_bytes"] == 0
    assert kernel.attributes["dynamic_shared_bytes"] > 48 << 10
    per_multiprocessor = cuda.properties["threads_per_multiprocessor"]
    assert 1 <= kernel.occupancy(256) <= per_multiprocessor // 256
    assert kernel.occupancy(256, kernel.attributes["dynamic_shared_bytes"]) == 1
    block, grid = kernel.suggested_block()
    assert 32 <= block <= 1024 and grid >= 1


def test_properties_of_kernels_of_the_package(device):
    if not loom.get_device(device).is_cuda:
        assert loom.get_suggested_block_size(scale) == (1, 1)
        with pytest.raises(RuntimeError, match="is no CUDA device"):
            loom.get_cuda_kernel_properties(scale)
        return
    found = loom.get_cuda_kernel_properties(scale)
    assert found["register_count"] > 0 and found["max_threads_per_block"] >= 256
    assert found["blocks_per_multiprocessor"] >= 1
    block, grid = loom.get_suggested_block_size(scale)
    x = loom.ones(5000)
    loom.launch(scale, 5000, [x, 3.0], block_dim=block)
    assert x.numpy()[-1] == 3.0 and grid >= 1
    with pytest.raises(TypeError, match="a kernel is wanted"):
        loom.get_suggested_block_size(3)


def test_fat_binaries_of_the_package_are_loaded(cuda):
    kernel = loom.GpuModule(scale.fatbin(["sm_75", f"sm_{cuda.arch}"])).kernel("scale_cuda_kernel_forward")
    x = loom.full(100, 2.0)
    # The launch's extents and the address of its report, the array's address, extent and stride, and the factor.
    launch = np.array([100, 1, 1, 1, 0], np.uint64).tobytes()
    view = np.array([x.ptr, 100, 4], np.uint64).tobytes()
    kernel.launch(1, 128, [launch, view, np.float32(3.0)])
    loom.synchronize()
    assert x.numpy().tolist() == [6.0] * 100
    with pytest.raises(loom.DeviceError):
        loom.GpuModule(scale.fatbin(["sm_121"]), cuda)


def test_modules_are_unloaded_whole(cuda):
    text = ADD.replace(".address_size 64", ".address_size 64\n.visible .global .align 8 .b8 table[4194304];", 1)
    x = loom.zeros(256)

    def use(number):
        loom.GpuModule(f"{text}// {number}").kernel("add").launch(1, 256, [x, 1.0, 256])

    use(0)
    free = cuda.free_memory
    for number in range(1, 9):
        use(number)
    assert cuda.free_memory == free and x.numpy().tolist() == [9.0] * 256
    module = loom.GpuModule(text)
    assert cuda.free_memory <= free - 4194304
    del module
    assert cuda.free_memory == free


def test_images_that_end_early_are_refused(cuda):
    image = scale.fatbin(["sm_75"])
    for size in (1, 4, 15, 16, 40, len(image) // 2, len(image) - 1):
        with pytest.raises(loom.DeviceError):
            loom.GpuModule(image[:size], cuda)
