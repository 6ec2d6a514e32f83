// What main.c does, in C++.
#include "pricing.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

namespace {

template <class T, std::size_t N> polyloom_array1 view(std::span<T, N> values) {
    return {values.data(), {static_cast<int64_t>(values.size())}, {sizeof(T)}};
}

polyloom_array2 view(std::vector<float> &values, int64_t rows, int64_t columns) {
    return {values.data(), {rows, columns}, {columns * static_cast<int64_t>(sizeof(float)), sizeof(float)}};
}

void print(const char *name, std::span<const float> values) {
    std::printf("%s", name);
    for (float value : values) std::printf(" %08x", std::bit_cast<std::uint32_t>(value));
    std::printf("\n");
}

std::vector<float> filled(int n, float step, int factor, int period, float first) {
    std::vector<float> made(n);
    for (int i = 0; i < n; i++) made[i] = step * static_cast<float>(i * factor % period) + first;
    return made;
}

} // namespace

int main() {
    std::vector<float> x(37), y(37), image(35), out(35), points(12);
    for (int i = 0; i < 37; i++) {
        x[i] = 0.25f * static_cast<float>(i) - 3.0f;
        y[i] = 1.0f / static_cast<float>(i + 1);
    }
    for (int i = 0; i < 35; i++) image[i] = static_cast<float>(i * i % 11);
    for (int i = 0; i < 12; i++) points[i] = 0.5f * static_cast<float>(i);

    auto x_array = view(std::span(x)), y_array = view(std::span(y));
    if (scale_add(37, 1.5f, &x_array, &y_array) != 0) return 1;
    print("scale_add", y);

    auto image_array = view(image, 5, 7), out_array = view(out, 5, 7);
    if (smooth(5, 7, &image_array, &out_array) != 0) return 1;
    print("smooth", out);

    const std::array turn{0.0f, 0.0f, 0.70710678f, 0.70710678f};
    auto points_array = view(points, 4, 3);
    if (rotate(4, turn.data(), &points_array) != 0) return 1;
    print("rotate", points);

    const double price = call_price(100.0, 95.0, 0.03, 0.2, 0.75);
    std::printf("call_price %016llx\n", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(price)));

    std::array<std::int32_t, 3> at{36, 37, 0};
    auto at_array = view(std::span(at)), first = view(std::span(y).first(3));
    const int status = gather(3, &x_array, &at_array, &first);
    const bool is_refused = status != 0 && std::string_view(gather_site(status)).find("out of bounds") != std::string_view::npos;
    std::printf("gather %s\n", is_refused ? "refused" : "accepted");

    // A function of tensors: the arrays have the shapes that the header says, and the workspace is the caller's.
    auto rows = filled(8 * 24, 0.125f, 7, 19, -1.0f), weight = filled(16 * 24, 0.0625f, 5, 13, -0.375f);
    auto scale = filled(24, 0.0625f, 1, 24, 0.5f), shift = filled(24, -0.03125f, 1, 24, 0.25f);
    auto bias = filled(16, -0.0625f, 1, 16, 0.5f);
    std::vector<float> bent(8 * 16);
    std::vector<char> workspace(layer_workspace_size);
    auto rows_array = view(rows, 8, 24), weight_array = view(weight, 16, 24), bent_array = view(bent, 8, 16);
    auto scale_array = view(std::span(scale)), shift_array = view(std::span(shift)), bias_array = view(std::span(bias));
    const auto run = [&] {
        return layer(&rows_array, &scale_array, &shift_array, &weight_array, &bias_array, &bent_array, workspace.data());
    };
    if (run() != 0) return 1;
    print("layer", bent);
    rows_array.shape[0] = 7;
    const int other = run();
    const bool is_layer_refused = other != 0 && std::string_view(layer_site(other)).find("(8, 24)") != std::string_view::npos;
    std::printf("layer %s\n", is_layer_refused ? "refused" : "accepted");
}
