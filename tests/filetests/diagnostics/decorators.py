# test diagnostics
import polyloom as loom

SIZE = 64


@loom.kernel(
    kind="stencl",
    device="gpu",
    block_dim=5000,
    workgroup_size=(16, 16, 16),
    shared_bytes=-1,
    launch_bounds=(1, 2, 3),
    max_registers=1000,
    float_mode=3,
    check="yes",
    hints={"unroll": k},
    unchecked=2,
    cpu_affinity=[0, "a"],
    blok_dim=3,
    **SIZE,
)
def wrong(a: loom.array(dtype=float)):
    a[0] = 1.0


@loom.kernel(
    kind="stencil",
    device="cuda:0",
    block_dim=SIZE * 2,
    fast_math=True,
    check=True,
    hints={"unroll": 4, "note": "text"},
    enable_backward=False,
    cpu_affinity=(0, 1),
)
def right(a: loom.array(dtype=float)):
    a[0] = 1.0


@loom.func(float_mode="strict", chek=True, nme="f")
def of_kernels(x: float):
    return x


@loom.func(inline_always=True, name="g")
def of_functions(x: float):
    return x


@loom.kernel(name=1, module="unique")
def named(a: loom.array(dtype=float)):
    a[0] = 1.0


@loom.func(inline=True)
def written_for_warp(x: float):
    return x


@loom.kernel(cluster_dim=SIZE, cuda_max_registers=32, enable_cuda_smem_spilling=True, grid_stride=False)
def also_written_for_warp(a: loom.array(dtype=float)):
    a[0] = written_for_warp(1.0)
