// What NVRTC declares of CUDA C++, for compilers that check the text of kernels and have no CUDA: as much of it as
// Polyloom's texts use. Signatures are those of the CUDA C++ Programming Guide and the CUDA Math API.

#ifdef __clang__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define DECLARED __attribute__((device)) extern
#else
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __launch_bounds__(...)
#define DECLARED extern
#endif
#define __forceinline__ inline
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))

typedef __SIZE_TYPE__ size_t;

struct uint3 {
    unsigned int x, y, z;
};
struct dim3 {
    unsigned int x, y, z;
};
#ifdef __clang__
typedef int cudaError_t;
struct CUstream_st;
extern "C" __host__ unsigned int __cudaPushCallConfiguration(dim3, dim3, size_t = 0, CUstream_st * = 0);
extern "C" __host__ cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, CUstream_st * = 0);
#endif
DECLARED const uint3 threadIdx;
DECLARED const uint3 blockIdx;
DECLARED const dim3 blockDim;
DECLARED const dim3 gridDim;

extern "C" {
DECLARED int printf(const char *, ...);
DECLARED void __trap();
DECLARED void *memcpy(void *, const void *, size_t);
}

DECLARED float __fadd_rn(float, float);
DECLARED float __fsub_rn(float, float);
DECLARED float __fmul_rn(float, float);
DECLARED float __fdiv_rn(float, float);
DECLARED float __fmaf_rn(float, float, float);
DECLARED float __fsqrt_rn(float);
DECLARED double __dadd_rn(double, double);
DECLARED double __dsub_rn(double, double);
DECLARED double __dmul_rn(double, double);
DECLARED double __ddiv_rn(double, double);
DECLARED double __fma_rn(double, double, double);
DECLARED double __dsqrt_rn(double);
DECLARED float __double2float_rn(double);
DECLARED float __int2float_rn(int);
DECLARED float __int_as_float(int);
DECLARED int __float_as_int(float);
DECLARED float __uint_as_float(unsigned int);
DECLARED unsigned int __float_as_uint(float);
DECLARED double __longlong_as_double(long long);
DECLARED long long __double_as_longlong(double);

// The mathematics of <math.h>, in both precisions.
#define DECLARE_ONE(name) \
    DECLARED float name(float); \
    DECLARED double name(double); \
    DECLARED float name##f(float);
#define DECLARE_TWO(name) \
    DECLARED float name(float, float); \
    DECLARED double name(double, double); \
    DECLARED float name##f(float, float);
DECLARE_ONE(floor)
DECLARE_ONE(ceil)
DECLARE_ONE(trunc)
DECLARE_ONE(rint)
DECLARE_ONE(round)
DECLARE_ONE(fabs)
DECLARE_ONE(sqrt)
DECLARE_ONE(rsqrt)
DECLARE_ONE(exp)
DECLARE_ONE(exp2)
DECLARE_ONE(log)
DECLARE_ONE(log2)
DECLARE_ONE(sin)
DECLARE_ONE(cos)
DECLARE_ONE(tanh)
DECLARE_TWO(copysign)
DECLARE_TWO(fmin)
DECLARE_TWO(fmax)
DECLARE_TWO(fmod)
DECLARED float __expf(float);
DECLARED float __logf(float);
DECLARED float __sinf(float);
DECLARED float __cosf(float);
DECLARED float __powf(float, float);
DECLARED float __fdividef(float, float);
DECLARED bool isnan(float);
DECLARED bool isnan(double);
DECLARED bool isinf(float);
DECLARED bool isinf(double);
DECLARED bool isfinite(float);
DECLARED bool isfinite(double);
DECLARED int min(int, int);
DECLARED int max(int, int);

DECLARED int __popc(unsigned int);
DECLARED int __popcll(unsigned long long);
DECLARED int __clz(int);
DECLARED int __clzll(long long);
DECLARED int __ffs(int);
DECLARED int __ffsll(long long);
DECLARED unsigned int __umulhi(unsigned int, unsigned int);
DECLARED unsigned long long __umul64hi(unsigned long long, unsigned long long);

DECLARED void __syncthreads();
DECLARED int __syncthreads_and(int);
DECLARED int __syncthreads_or(int);
DECLARED int __syncthreads_count(int);
DECLARED void __syncwarp(unsigned int = 0xffffffffu);
DECLARED void __threadfence();
DECLARED void __threadfence_block();
DECLARED void __threadfence_system();
DECLARED void __nanosleep(unsigned int);
DECLARED long long clock64();
DECLARED unsigned int __activemask();
DECLARED unsigned int __ballot_sync(unsigned int, int);
DECLARED int __any_sync(unsigned int, int);
DECLARED int __all_sync(unsigned int, int);
DECLARED size_t __cvta_generic_to_shared(const void *);

template <typename T> DECLARED T __shfl_sync(unsigned int, T, int, int = 32);
template <typename T> DECLARED T __shfl_up_sync(unsigned int, T, unsigned int, int = 32);
template <typename T> DECLARED T __shfl_down_sync(unsigned int, T, unsigned int, int = 32);
template <typename T> DECLARED T __shfl_xor_sync(unsigned int, T, int, int = 32);
template <typename T> DECLARED unsigned int __match_any_sync(unsigned int, T);
template <typename T> DECLARED unsigned int __match_all_sync(unsigned int, T, int *);
template <typename T> DECLARED T __ldg(const T *);
DECLARED unsigned int __reduce_add_sync(unsigned int, unsigned int);
DECLARED unsigned int __reduce_min_sync(unsigned int, unsigned int);
DECLARED unsigned int __reduce_max_sync(unsigned int, unsigned int);
DECLARED unsigned int __reduce_and_sync(unsigned int, unsigned int);
DECLARED unsigned int __reduce_or_sync(unsigned int, unsigned int);
DECLARED unsigned int __reduce_xor_sync(unsigned int, unsigned int);

#define DECLARE_ATOMIC(type) \
    DECLARED type atomicAdd(type *, type); \
    DECLARED type atomicExch(type *, type);
#define DECLARE_INTEGER_ATOMIC(type) \
    DECLARE_ATOMIC(type) \
    DECLARED type atomicMin(type *, type); \
    DECLARED type atomicMax(type *, type); \
    DECLARED type atomicAnd(type *, type); \
    DECLARED type atomicOr(type *, type); \
    DECLARED type atomicXor(type *, type); \
    DECLARED type atomicCAS(type *, type, type);
DECLARE_ATOMIC(float)
DECLARE_ATOMIC(double)
DECLARE_INTEGER_ATOMIC(int)
DECLARE_INTEGER_ATOMIC(unsigned int)
DECLARE_INTEGER_ATOMIC(unsigned long long)
DECLARED int atomicSub(int *, int);
DECLARED unsigned int atomicSub(unsigned int *, unsigned int);
DECLARED unsigned int atomicInc(unsigned int *, unsigned int);
DECLARED unsigned int atomicDec(unsigned int *, unsigned int);
DECLARED long long atomicMin(long long *, long long);
DECLARED long long atomicMax(long long *, long long);
DECLARED unsigned short atomicCAS(unsigned short *, unsigned short, unsigned short);
