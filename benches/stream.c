/* What the memory allows: plain C loops that do nothing else. saxpy reads x, and reads and writes y, which lie outside
 * the caches; the stencil reads x once from afar and writes y.
 * usage: stream ELEMENTS THREADS saxpy|stencil; prints the median seconds of 60 passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    long n = atol(argv[1]);
    int threads = atoi(argv[2]), reads_y = !strcmp(argv[3], "saxpy");
    long side = 1;
    while ((side + 1) * (side + 1) <= n) side++;
    float *x = aligned_alloc(4096, n * sizeof *x), *y = aligned_alloc(4096, n * sizeof *y);
    double seconds[60];
    if (!x || !y) return 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (long i = 0; i < n; i++) x[i] = 1.0f, y[i] = 2.0f;
    for (int pass = 0; pass < 60; pass++) {
        double t = now();
        if (reads_y) {
#pragma omp parallel for simd num_threads(threads) schedule(static)
            for (long i = 0; i < n; i++) y[i] = 0.5f * x[i] + y[i];
        } else {
#pragma omp parallel for simd num_threads(threads) schedule(static)
            for (long i = side; i < n - side; i++)
                y[i] = 0.25f * (x[i - side] + x[i + side] + x[i - 1] + x[i + 1]);
        }
        seconds[pass] = now() - t;
    }
    qsort(seconds, 60, sizeof *seconds, ascending);
    printf("%.9f\n", seconds[30]);
    return y[n / 2] < 0;
}
