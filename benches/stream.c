/* What the memory allows: plain C loops that do nothing else. The number of threads is OpenMP's. */

void saxpy(long n, float a, const float *restrict x, float *restrict y) {
#pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

void stencil(long side, const float *restrict grid, float *restrict out) {
#pragma omp parallel for schedule(static)
    for (long i = 1; i < side - 1; i++) {
        const float *row = grid + i * side;
        for (long j = 1; j < side - 1; j++)
            out[i * side + j] = 0.25f * (row[j - side] + row[j + side] + row[j - 1] + row[j + 1]);
    }
}
