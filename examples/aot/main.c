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
    return 0;
}
