// The kernels of benches/kinds.py as plain C loop nests. `PARALLEL` is `omp parallel for`.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PARALLEL _Pragma("omp parallel for schedule(static)")

void filter_rows(const float *restrict x, float *restrict y, int rows, int n, float a, float b) {
    PARALLEL for (int i = 0; i < rows; i++) {
        float state = 0.0f;
        for (int j = 0; j < n; j++) {
            state = a * state + b * x[(size_t)i * n + j];
            y[(size_t)i * n + j] = state;
        }
    }
}

void running_sums(const float *restrict x, float *restrict y, int rows, int n) {
    PARALLEL for (int i = 0; i < rows; i++) {
        float sum = 0.0f;
        for (int j = 0; j < n; j++) {
            sum += x[(size_t)i * n + j];
            y[(size_t)i * n + j] = sum;
        }
    }
}

void sparse_product(const int32_t *restrict starts, const int32_t *restrict columns, const float *restrict values,
                    const float *restrict x, float *restrict y, int rows) {
    PARALLEL for (int i = 0; i < rows; i++) {
        float sum = 0.0f;
        for (int k = starts[i]; k < starts[i + 1]; k++)
            sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}

void neighbour_forces(const int32_t *restrict starts, const int32_t *restrict list, const float *restrict p,
                      float *restrict f, int n) {
    PARALLEL for (int i = 0; i < n; i++) {
        float x = p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2], fx = 0, fy = 0, fz = 0;
        for (int k = starts[i]; k < starts[i + 1]; k++) {
            int j = list[k];
            float dx = p[3 * j] - x, dy = p[3 * j + 1] - y, dz = p[3 * j + 2] - z;
            float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
            float w = 1.0f / (r2 * r2);
            fx += w * dx, fy += w * dy, fz += w * dz;
        }
        f[3 * i] = fx, f[3 * i + 1] = fy, f[3 * i + 2] = fz;
    }
}

void histogram(const uint8_t *restrict x, int32_t *restrict counts, int n) {
    memset(counts, 0, 256 * sizeof *counts);
#pragma omp parallel for schedule(static) reduction(+ : counts[:256])
    for (int i = 0; i < n; i++)
        counts[x[i]] += 1;
}

void histogram_floats(const float *restrict x, int32_t *restrict counts, int n, float low, float scale) {
    memset(counts, 0, 64 * sizeof *counts);
#pragma omp parallel for schedule(static) reduction(+ : counts[:64])
    for (int i = 0; i < n; i++) {
        int bin = (int)((x[i] - low) * scale);
        if (bin >= 0 && bin < 64)
            counts[bin] += 1;
    }
}

void life(const uint8_t *restrict a, uint8_t *restrict b, int n) {
    PARALLEL for (int i = 0; i < n; i++) {
        int up = (i + n - 1) % n, down = (i + 1) % n;
        for (int j = 0; j < n; j++) {
            int left = (j + n - 1) % n, right = (j + 1) % n;
            int count = a[(size_t)up * n + left] + a[(size_t)up * n + j] + a[(size_t)up * n + right] +
                        a[(size_t)i * n + left] + a[(size_t)i * n + right] + a[(size_t)down * n + left] +
                        a[(size_t)down * n + j] + a[(size_t)down * n + right];
            b[(size_t)i * n + j] = count == 3 || (count == 2 && a[(size_t)i * n + j] == 1);
        }
    }
}

void rule(const uint8_t *restrict a, uint8_t *restrict b, int n, int number) {
    PARALLEL for (int i = 0; i < n; i++) {
        int left = a[(i + n - 1) % n], right = a[(i + 1) % n];
        b[i] = (number >> (4 * left + 2 * a[i] + right)) & 1;
    }
}

void lattice(const float *restrict f, float *restrict g, int ny, int nx, float omega) {
    static const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    static const float w[9] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                               1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
    size_t plane = (size_t)ny * nx;
    PARALLEL for (int y = 0; y < ny; y++) {
        for (int x = 0; x < nx; x++) {
            float h[9], rho = 0, ux = 0, uy = 0;
            for (int q = 0; q < 9; q++) {
                int sx = (x - ex[q] + nx) % nx, sy = (y - ey[q] + ny) % ny;
                h[q] = f[q * plane + (size_t)sy * nx + sx];
                rho += h[q], ux += ex[q] * h[q], uy += ey[q] * h[q];
            }
            ux /= rho, uy /= rho;
            float square = 1.5f * (ux * ux + uy * uy);
            for (int q = 0; q < 9; q++) {
                float e = 3.0f * (ex[q] * ux + ey[q] * uy);
                float equilibrium = w[q] * rho * (1.0f + e + 0.5f * e * e - square);
                g[q * plane + (size_t)y * nx + x] = h[q] + omega * (equilibrium - h[q]);
            }
        }
    }
}

void product(const float *restrict a, const float *restrict b, float *restrict c, int n) {
    PARALLEL for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
            c[(size_t)i * n + j] = sum;
        }
}

void stencil3(const float *restrict a, float *restrict b, int n) {
    size_t s = (size_t)n * n;
    PARALLEL for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
                size_t at = i * s + (size_t)j * n + k;
                b[at] = 0.4f * a[at] +
                        0.1f * (a[at - s] + a[at + s] + a[at - n] + a[at + n] + a[at - 1] + a[at + 1]);
            }
}

void softmax(const float *restrict x, float *restrict y, int rows, int n) {
    PARALLEL for (int i = 0; i < rows; i++) {
        const float *row = x + (size_t)i * n;
        float *out = y + (size_t)i * n;
        float most = -INFINITY, sum = 0.0f;
        for (int j = 0; j < n; j++)
            most = row[j] > most ? row[j] : most;
        for (int j = 0; j < n; j++) {
            out[j] = expf(row[j] - most);
            sum += out[j];
        }
        for (int j = 0; j < n; j++)
            out[j] /= sum;
    }
}

void divisions(const int32_t *restrict x, int32_t *restrict y, int n, int width, int height) {
    PARALLEL for (int i = 0; i < n; i++)
        y[i] = x[i] / width * height + x[i] % width;
}

void transpose(const float *restrict x, float *restrict y, int n, int width, int height) {
    PARALLEL for (int i = 0; i < n; i++)
        y[i] = x[(size_t)(i % height) * width + i / height];
}
