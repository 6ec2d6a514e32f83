// `cuda::barrier`: compiled by NVRTC for compute_90 with -lineinfo into nvrtc_barriers.ptx.
#include <cuda/barrier>
// Phases of a barrier of the block, each between a write and a read of what other threads wrote.
extern "C" __global__ void phases(int* out, int n) {
    __shared__ int s[1024];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < n; i++) {
        s[threadIdx.x] = threadIdx.x + i;
        bar.arrive_and_wait();
        sum += s[(threadIdx.x + 1) % blockDim.x];
        bar.arrive_and_wait();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A copy of 1 KiB to shared memory, which becomes `cp.async.bulk`.
extern "C" __global__ void bulk(const int* in, int* out) {
    __shared__ alignas(16) int s[256];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) cuda::memcpy_async(s, in + 256 * blockIdx.x, cuda::aligned_size_t<16>(sizeof(s)), bar);
    bar.arrive_and_wait();
    out[256 * blockIdx.x + threadIdx.x] = s[255 - threadIdx.x];
}
