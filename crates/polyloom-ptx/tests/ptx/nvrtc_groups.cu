// Cooperative groups: compiled by NVRTC for compute_80 with -lineinfo into nvrtc_groups.ptx.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// Sums of tiles of two warps, beside shared memory of the kernel's own.
extern "C" __global__ void tile_sums(const int* in, int* out) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = in[t];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<64>(block);
    int sum = cg::reduce(tile, in[t], cg::plus<int>());
    block.sync();
    out[t] = sum;
    out[256 + t] = s[t];
}

// Barriers of tiles of two warps around dynamic shared memory.
extern "C" __global__ void tile_reversal(const int* in, int* out) {
    extern __shared__ int s[];
    int t = threadIdx.x;
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    for (int round = 0; round < 3; round++) {
        s[t] = in[t] + round;
        tile.sync();
        int other = s[t ^ 63];
        tile.sync();
        out[256 * round + t] = other;
    }
}

// Every block adds up what all blocks wrote before the barrier of the grid, twice.
extern "C" __global__ void grid_sums(int* values, int* out) {
    auto grid = cg::this_grid();
    unsigned rank = grid.thread_rank(), n = grid.size();
    values[rank] = rank + 1;
    for (int round = 0; round < 2; round++) {
        grid.sync();
        int sum = 0;
        for (unsigned i = 0; i < n; i++) sum += values[i];
        grid.sync();
        values[rank] = sum;
    }
    out[rank] = values[rank];
}

// Asks whether there is a grid to be synchronised, and does without.
extern "C" __global__ void grid_or_not(int* out) {
    auto grid = cg::this_grid();
    out[grid.thread_rank()] = grid.is_valid();
}
