"""What main.c does, in Python: with NumPy, and without Polyloom. The folder of the library is the argument."""

import math
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
import pricing

if "polyloom" in sys.modules:
    sys.exit("the library's module has imported polyloom")


def show(name: str, values: np.ndarray) -> None:
    print(name, *(f"{bits:08x}" for bits in values.ravel().view(np.uint32)))


i = np.arange(37, dtype=np.float32)
x, y = np.float32(0.25) * i - np.float32(3.0), np.float32(1.0) / (i + np.float32(1.0))
image = (np.arange(35) ** 2 % 11).astype(np.float32).reshape(5, 7)
points = (np.float32(0.5) * np.arange(12, dtype=np.float32)).reshape(4, 3)
before, y_before = points.copy(), y.astype(np.float64)

pricing.scale_add(37, 1.5, x, y)
np.testing.assert_allclose(y, 1.5 * x.astype(np.float64) + y_before, rtol=1e-6)
show("scale_add", y)

out = np.zeros_like(image)
pricing.smooth(5, 7, image, out)
padded = np.pad(image.astype(np.float64), 1, mode="edge")
neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
np.testing.assert_allclose(out, 0.5 * image + 0.125 * neighbours, rtol=1e-6)
show("smooth", out)

pricing.rotate(4, np.array([0.0, 0.0, 0.70710678, 0.70710678], np.float32), points)
np.testing.assert_allclose(points, np.stack([-before[:, 1], before[:, 0], before[:, 2]], axis=1), atol=1e-5)
show("rotate", points)

price = pricing.call_price(100.0, 95.0, 0.03, 0.2, 0.75)
d1 = (math.log(100 / 95) + (0.03 + 0.02) * 0.75) / (0.2 * math.sqrt(0.75))
normal = lambda z: 0.5 * math.erfc(-z / math.sqrt(2))  # noqa: E731
exact = 100 * normal(d1) - 95 * math.exp(-0.03 * 0.75) * normal(d1 - 0.2 * math.sqrt(0.75))
# Abramowitz and Stegun give the error of the formula as at most 7.5e-8.
assert abs(price - exact) < 2 * 100 * 7.5e-8, (price, exact)
print(f"call_price {np.float64(price).view(np.uint64):016x}")

try:
    pricing.gather(3, x, np.array([36, 37, 0], np.int32), y[:3])
    print("gather accepted")
except pricing.CheckError as error:
    assert "kernels.py" in str(error), error
    print("gather refused")


def filled(shape: tuple[int, ...], step: float, factor: int, period: int, first: float) -> np.ndarray:
    n = int(np.prod(shape))
    return (np.float32(step) * (np.arange(n) * factor % period).astype(np.float32) + np.float32(first)).reshape(shape)


# A function of tensors: the arrays have the shapes that the module says. Without a workspace the call allocates one.
rows, weight = filled((8, 24), 0.125, 7, 19, -1.0), filled((16, 24), 0.0625, 5, 13, -0.375)
scale, shift = filled((24,), 0.0625, 1, 24, 0.5), filled((24,), -0.03125, 1, 24, 0.25)
bias, bent = filled((16,), -0.0625, 1, 16, 0.5), np.empty((8, 16), np.float32)
pricing.layer(rows, scale, shift, weight, bias, bent)
wide = rows.astype(np.float64)
normalised = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale + shift
product = normalised @ weight.T.astype(np.float64) + bias
erf = np.vectorize(math.erf)
np.testing.assert_allclose(bent, product * (1 + erf(product / math.sqrt(2))) / 2, rtol=2e-5, atol=2e-5)
show("layer", bent)
try:
    pricing.layer(rows[:7], scale, shift, weight, bias, bent)
    print("layer accepted")
except TypeError as error:
    assert "(8, 24)" in str(error), error
    print("layer refused")
