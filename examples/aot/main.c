/* Calls the library's functions and prints the bits of what they give. `make aot` compares them with the other programs'. */
#include "pricing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct polyloom_array1 vector_of(float *data, int64_t n) {
    struct polyloom_array1 array = {data, {n}, {sizeof(float)}};
    return array;
}

static struct polyloom_array2 matrix_of(float *data, int64_t rows, int64_t columns) {
    struct polyloom_array2 array = {data, {rows, columns}, {columns * (int64_t)sizeof(float), sizeof(float)}};
    return array;
}

static void print_floats(const char *name, const float *data, int n) {
    printf("%s", name);
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        printf(" %08" PRIx32, bits);
    }
    printf("\n");
}

static void fill(float *data, int n, float step, int factor, int period, float first) {
    for (int i = 0; i < n; i++) data[i] = step * (float)(i * factor % period) + first;
}

int main(void) {
    if (pricing_abi() != 1) return 1;
    float x[37], y[37], image[5 * 7], out[5 * 7], points[4 * 3];
    for (int i = 0; i < 37; i++) {
        x[i] = 0.25f * (float)i - 3.0f;
        y[i] = 1.0f / (float)(i + 1);
    }
    for (int i = 0; i < 35; i++) image[i] = (float)(i * i % 11);
    for (int i = 0; i < 12; i++) points[i] = 0.5f * (float)i;

    struct polyloom_array1 x_array = vector_of(x, 37), y_array = vector_of(y, 37);
    if (scale_add(37, 1.5f, &x_array, &y_array) != 0) return 1;
    print_floats("scale_add", y, 37);

    struct polyloom_array2 image_array = matrix_of(image, 5, 7), out_array = matrix_of(out, 5, 7);
    if (smooth(5, 7, &image_array, &out_array) != 0) return 1;
    print_floats("smooth", out, 35);

    const float turn[4] = {0.0f, 0.0f, 0.70710678f, 0.70710678f};
    struct polyloom_array2 points_array = matrix_of(points, 4, 3);
    if (rotate(4, turn, &points_array) != 0) return 1;
    print_floats("rotate", points, 12);

    double price = call_price(100.0, 95.0, 0.03, 0.2, 0.75);
    uint64_t bits;
    memcpy(&bits, &price, sizeof bits);
    printf("call_price %016" PRIx64 "\n", bits);

    int32_t at[3] = {36, 37, 0};
    struct polyloom_array1 at_array = {at, {3}, {sizeof(int32_t)}}, first = vector_of(y, 3);
    int32_t status = gather(3, &x_array, &at_array, &first);
    const char *said = gather_site(status);
    printf("gather %s\n", status != 0 && strstr(said, "out of bounds") ? "refused" : "accepted");

    /* A function of tensors: the arrays have the shapes that the header says, and the workspace is the caller's. */
    float rows[8 * 24], scale[24], shift[24], weight[16 * 24], bias[16], bent[8 * 16];
    fill(rows, 8 * 24, 0.125f, 7, 19, -1.0f);
    fill(scale, 24, 0.0625f, 1, 24, 0.5f);
    fill(shift, 24, -0.03125f, 1, 24, 0.25f);
    fill(weight, 16 * 24, 0.0625f, 5, 13, -0.375f);
    fill(bias, 16, -0.0625f, 1, 16, 0.5f);
    struct polyloom_array2 rows_array = matrix_of(rows, 8, 24), weight_array = matrix_of(weight, 16, 24);
    struct polyloom_array2 bent_array = matrix_of(bent, 8, 16);
    struct polyloom_array1 scale_array = vector_of(scale, 24), shift_array = vector_of(shift, 24);
    struct polyloom_array1 bias_array = vector_of(bias, 16);
    static char workspace[layer_workspace_size];
    if (layer(&rows_array, &scale_array, &shift_array, &weight_array, &bias_array, &bent_array, workspace) != 0) return 1;
    print_floats("layer", bent, 8 * 16);
    rows_array.shape[0] = 7;
    status = layer(&rows_array, &scale_array, &shift_array, &weight_array, &bias_array, &bent_array, workspace);
    printf("layer %s\n", status != 0 && strstr(layer_site(status), "(8, 24)") ? "refused" : "accepted");
    return 0;
}
