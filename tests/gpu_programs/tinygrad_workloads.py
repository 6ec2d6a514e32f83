"""Workloads over tinygrad's public API, against NumPy. DEV=CUDA:PTX has it compile for the driver."""

import numpy as np
from tinygrad import Tensor, dtypes

rng = np.random.default_rng(5)


def given(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def close(found, expected, atol=1e-4):
    np.testing.assert_allclose(found.numpy(), expected, atol=atol, rtol=1e-4)


def softmax_of(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def unary(name, reference):
    def run():
        x = given(37, 11)
        close(getattr(Tensor(x), name)(), reference(x))

    return run


def binary(function):
    def run():
        x, y = given(20, 1, 9), given(1, 13, 9)
        close(function(Tensor(x), Tensor(y)), function(x, y))

    return run


def reduction(name):
    def run():
        x = given(17, 33)
        close(getattr(Tensor(x), name)(axis=1), getattr(x, name)(axis=1))

    return run


def matmul():
    a, b = given(48, 65), given(65, 30)
    close(Tensor(a) @ Tensor(b), a @ b)


def matmul_half():
    a, b = given(32, 64, dtype=np.float16), given(64, 32, dtype=np.float16)
    close(Tensor(a).matmul(Tensor(b), dtype=dtypes.float32), a.astype(np.float32) @ b.astype(np.float32), 1e-2)


def softmax():
    x = given(12, 70)
    close(Tensor(x).softmax(), softmax_of(x))


def layernorm():
    x = given(9, 40)
    close(Tensor(x).layernorm(), (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


def conv2d():
    x, w = given(1, 2, 9, 9), given(3, 2, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
    close(Tensor(x).conv2d(Tensor(w)), np.einsum("chwij,ocij->ohw", windows, w)[None])


def attention():
    q, k, v = given(1, 2, 16, 8), given(1, 2, 16, 8), given(1, 2, 16, 8)
    expected = softmax_of(q @ k.swapaxes(-1, -2) / np.sqrt(8)) @ v
    close(Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)), expected)


def sort():
    x = given(64)
    close(Tensor(x).sort()[0], np.sort(x))


def cumsum():
    x = given(5, 60)
    close(Tensor(x).cumsum(axis=1), x.cumsum(1))


def argmax():
    x = given(7, 50)
    np.testing.assert_array_equal(Tensor(x).argmax(axis=1).numpy(), x.argmax(1))


def gather():
    x, at = given(6, 20), rng.integers(0, 20, (6, 5)).astype(np.int32)
    close(Tensor(x).gather(1, Tensor(at)), np.take_along_axis(x, at, 1))


def pooling():
    x = given(1, 1, 8, 8)
    close(Tensor(x).max_pool2d(), x.reshape(1, 1, 4, 2, 4, 2).max((3, 5)))


def padding():
    x = given(3, 4)
    close(Tensor(x).pad(((1, 2), (0, 3))), np.pad(x, ((1, 2), (0, 3))))


def concatenation():
    x, y = given(3, 4), given(5, 4)
    close(Tensor(x).cat(Tensor(y)), np.concatenate([x, y]))


def where():
    x = given(40)
    close((Tensor(x) > 0).where(Tensor(x), -1.0), np.where(x > 0, x, -1))


def random_numbers():
    x = Tensor.rand(1000).numpy()
    assert 0 <= x.min() < x.max() < 1 and abs(x.mean() - 0.5) < 0.05


def backward():
    a, b = given(6, 7), given(7, 8)
    x, w = Tensor(a), Tensor(b)
    of_x, of_w = (x @ w).relu().sum().gradient(x, w)
    mask = (a @ b > 0).astype(np.float32)
    close(of_x, mask @ b.T)
    close(of_w, a.T @ mask)


PROGRAMS = {
    **{name: unary(name, getattr(np, name)) for name in ("exp", "sin", "cos", "abs", "sign", "floor", "tanh")},
    "sigmoid": unary("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "relu": unary("relu", lambda x: np.maximum(x, 0)),
    "add": binary(lambda x, y: x + y),
    "divide": binary(lambda x, y: x / (y * y + 1)),
    **{name: reduction(name) for name in ("sum", "max", "mean")},
    **{
        each.__name__: each
        for each in (
            matmul,
            matmul_half,
            softmax,
            layernorm,
            conv2d,
            attention,
            sort,
            cumsum,
            argmax,
            gather,
            pooling,
            padding,
            concatenation,
            where,
            random_numbers,
            backward,
        )
    },
}

if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        try:
            program()
            print(f"ok {name}", flush=True)
        except Exception as error:
            print(
                f"failed {name}: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}",
                flush=True,
            )
