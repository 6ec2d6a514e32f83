#include <cuda_fp16.h>
#include <mma.h>
#include <cuda_pipeline.h>
typedef unsigned int u32;

extern "C" __global__ void reduce(const float* in, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0.0f;
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

extern "C" __global__ void scan(const int* in, int* out, int n) {
    extern __shared__ int buffer[];
    int t = threadIdx.x;
    buffer[t] = t < n ? in[t] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d <<= 1) {
        int other = t >= d ? buffer[t - d] : 0;
        __syncthreads();
        buffer[t] += other;
        __syncthreads();
    }
    if (t < n) out[t] = buffer[t];
}

extern "C" __global__ void transpose(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < rows && y < columns) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum = fmaf(ta[threadIdx.y][i], tb[i][threadIdx.x], sum);
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void histogram(const unsigned char* in, u32* bins, int n) {
    __shared__ u32 local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

extern "C" __global__ void bitonic(int* data) {
    extern __shared__ int keys[];
    u32 t = threadIdx.x;
    keys[t] = data[t];
    __syncthreads();
    for (u32 size = 2; size <= blockDim.x; size <<= 1)
        for (u32 stride = size >> 1; stride > 0; stride >>= 1) {
            u32 other = t ^ stride;
            if (other > t) {
                bool up = (t & size) == 0;
                int a = keys[t], b = keys[other];
                if ((a > b) == up) { keys[t] = b; keys[other] = a; }
            }
            __syncthreads();
        }
    data[t] = keys[t];
}

extern "C" __global__ void softmax(const float* in, float* out, int columns) {
    const float* row = in + blockIdx.x * columns;
    float most = -3.402823466e38f;
    for (int i = threadIdx.x; i < columns; i += 32) most = fmaxf(most, row[i]);
    for (int d = 16; d; d >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(row[i] - most);
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    for (int i = threadIdx.x; i < columns; i += 32) out[blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}

extern "C" __global__ void stencil(const float* in, float* out, int n) {
    __shared__ float tile[128 + 6];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x + 3;
    tile[t] = i < n ? in[i] : 0.0f;
    if (threadIdx.x < 3) {
        tile[threadIdx.x] = i >= 3 ? in[i - 3] : 0.0f;
        tile[t + 128] = i + 128 < n ? in[i + 128] : 0.0f;
    }
    __syncthreads();
    float sum = 0;
    for (int d = -3; d <= 3; d++) sum += tile[t + d];
    if (i < n) out[i] = sum;
}

extern "C" __global__ void spin_lock(int* lock, int* counter, int rounds) {
    for (int r = 0; r < rounds; r++) {
        bool done = false;
        while (!done) {
            if (atomicCAS(lock, 0, 1) == 0) {
                __threadfence();
                *counter += 1;
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }
}

// A lock that is held across the reconvergence point, which hangs without independent threads.
extern "C" __global__ void blocking_lock(int* lock, volatile int* counter) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *counter = *counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

extern "C" __global__ void grid_barrier(volatile u32* arrived, const int* in, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    out[i] = in[i] * 2;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd((u32*)arrived, 1u);
        while (*arrived < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
    int other = *((volatile int*)&out[n - 1 - i]);
    out[n + i] = other + 1;
}

extern "C" __global__ void last_block(const float* in, float* partial, u32* count, float* out) {
    __shared__ bool last;
    __shared__ float values[64];
    values[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int d = 32; d; d >>= 1) {
        if (threadIdx.x < d) values[threadIdx.x] += values[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = values[0];
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += ((volatile float*)partial)[i];
        *out = sum;
    }
}

extern "C" __global__ void print(int n, double x) {
    if (threadIdx.x < n) printf("thread %d of %s: %5.2f %u%%\n", threadIdx.x, "block", x * threadIdx.x, 7u);
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

__device__ __noinline__ float plus(float a, float b) { return a + b; }
__device__ __noinline__ float times(float a, float b) { return a * b; }
__device__ __noinline__ float minus(float a, float b) { return a - b; }
typedef float (*function)(float, float);
__device__ function table[3] = {plus, times, minus};
extern "C" __global__ void pointers(const float* a, const float* b, float* out) {
    int t = threadIdx.x;
    out[t] = table[t % 3](a[t], b[t]);
}

struct Pair { int a; double b[3]; };
__constant__ float weights[4] = {0.5f, 1.5f, 2.5f, 3.5f};
__device__ int table2[2][3] = {{1, 2, 3}, {4, 5, 6}};
extern "C" __global__ void by_value(Pair p, double* out) {
    int t = threadIdx.x;
    double local[4];
    for (int i = 0; i < 4; i++) local[(i + t) % 4] = p.b[i % 3] * weights[i];
    out[t] = local[t % 4] + p.a + table2[t % 2][t % 3];
}

extern "C" __global__ void functions(const double* x, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = sin(x[i]);
    out[n + i] = exp(x[i] * 0.1);
    out[2 * n + i] = pow(fabs(x[i]) + 0.5, 1.7);
    out[3 * n + i] = (double)(sinf((float)x[i]) + tanf((float)x[i] * 0.01f) + log1pf((float)fabs(x[i])));
    out[4 * n + i] = x[i] / 3.7 + sqrt(fabs(x[i]));
}

extern "C" __global__ void integers(const int* a, const int* b, long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long r = 0;
    switch (a[i] & 7) {
        case 0: r = a[i] / b[i]; break;
        case 1: r = a[i] % b[i]; break;
        case 2: r = (long long)a[i] * b[i]; break;
        case 3: r = __popc(a[i]) + __clz(b[i]); break;
        case 4: r = __mulhi(a[i], b[i]); break;
        case 5: r = ((long long)a[i] << 20) / b[i]; break;
        case 6: r = (unsigned)a[i] % 7u; break;
        default: r = __brev(a[i]) ^ __byte_perm(a[i], b[i], 0x3175); break;
    }
    out[i] = r;
}

extern "C" __global__ void halves(const __half2* a, const __half2* b, __half* out, int n) {
    __half2 sum = __float2half2_rn(0.0f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum = __hfma2(a[i], b[i], sum);
    out[threadIdx.x] = __hadd(__low2half(sum), __high2half(sum));
}

extern "C" __global__ void tensor(const __half* a, const __half* b, float* c, int n) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + row * n + k, n);
        wmma::load_matrix_sync(fb, b + column * n + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void staged(const float4* in, float4* out) {
    __shared__ float4 stage[2][64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][t], &in[t], 16);
    __pipeline_commit();
    __pipeline_memcpy_async(&stage[1][t], &in[64 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 a = stage[0][63 - t];
    __pipeline_wait_prior(0);
    __syncthreads();
    float4 b = stage[1][63 - t];
    out[t] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

extern "C" __global__ void votes(const int* in, u32* out) {
    int t = threadIdx.x;
    u32 same = __match_any_sync(~0u, in[t]);
    u32 rank = __popc(same & ((1u << (t & 31)) - 1));
    u32 odd = __ballot_sync(~0u, in[t] & 1);
    u32 sum = __reduce_add_sync(same, in[t]);
    out[t] = rank | odd << 8 | sum << 24;
}

extern "C" __global__ void segmented(const float* values, const int* heads, float* out) {
    int t = threadIdx.x;
    float v = values[t];
    int head = heads[t];
    for (int d = 1; d < 32; d <<= 1) {
        float up = __shfl_up_sync(~0u, v, d);
        int h = __shfl_up_sync(~0u, head, d);
        if ((t & 31) >= d && !head) { v += up; head |= h; }
    }
    out[t] = v;
}
