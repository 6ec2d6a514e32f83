"""Random straight functions of the ops of models: products, convolutions, attention, pooling, scans, sorts, indices.

Shapes are known while a function is written, so that most calls are valid; with what lies between them they fuse.
"""

import random

import numpy as np

from . import compare, texts

DTYPES = ["float32", "float32", "float64", "float16"]
UNARY = ["relu", "tanh", "square", "negative", "sigmoid", "gelu"]
BINARY = ["add", "subtract", "multiply", "maximum"]


class _Writer:
    """Writes statements; knows the shape of each name, and which hold indices."""

    def __init__(self, number):
        self.random = random.Random(number)
        self.lines = []
        self.shapes = {}
        self.inputs = {}
        self.dtype = self.random.choice(DTYPES)

    def length(self):
        return self.random.choice([1, 2, 3, 5, 8, 17, 33, 40])

    def input(self, shape, n=None):
        """The name of a new argument: numbers, or indices of `n` elements."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (shape, self.dtype if n is None else "int64", n)
        self.shapes[name] = shape
        return name

    def value(self, rank=None):
        """The name of a number known so far, of so many axes, or of a new argument."""
        ranks = [1, 2, 3, 4] if rank is None else [rank]
        known = [name for name, shape in self.shapes.items() if len(shape) in ranks and not self.is_index(name)]
        if known and self.random.random() < 0.8:
            return self.random.choice(known[-4:])
        return self.input(tuple(self.length() for _ in range(self.random.randint(1, 3) if rank is None else rank)))

    def is_index(self, name):
        return name.startswith("i") or self.inputs.get(name, (0, 0, None))[2] is not None

    def assign(self, text, shape, prefix="y"):
        name = f"{prefix}{len(self.lines)}"
        self.lines.append(f"{name} = ops.{text}")
        self.shapes[name] = tuple(shape)

    def statement(self):
        choice = self.random.choice
        kind = choice(KINDS)
        getattr(self, kind)(choice)

    def elementwise(self, choice):
        x = self.value()
        self.assign(f"{choice(UNARY)}({x})", self.shapes[x])

    def binary(self, choice):
        x = self.value()
        shape = self.shapes[x]
        other = self.input(shape[self.random.randint(0, len(shape)) :]) if self.random.random() < 0.5 else x
        self.assign(f"{choice(BINARY)}({x}, {other})", shape)

    def product(self, choice):
        x = self.value()
        *batch, inner = self.shapes[x]
        n = self.length()
        if choice([True, False]):
            bias = choice(["", f", {self.input((n,))}"])
            self.assign(f"linear({x}, {self.input((n, inner))}{bias})", (*batch, n))
        else:
            self.assign(f"matmul({x}, {self.input((inner, n))})", (*batch, n))

    def einsum(self, choice):
        x = self.value(2)
        n, m = self.shapes[x]
        k = self.length()
        equation, other, shape = choice(
            [("ab,cb->ca", (k, m), (k, n)), ("ab,ab->b", (n, m), (m,)), ("ab,bc->abc", (m, k), (n, m, k))]
        )
        self.assign(f"einsum({equation!r}, {x}, {self.input(other)})", shape)

    def convolution(self, choice):
        groups, n = choice([1, 2]), choice([1, 2])
        extents = tuple(self.length() + 3 for _ in range(n))
        size = tuple(choice([1, 2, 3]) for _ in range(n))
        x, w = self.input((2, 4, *extents)), self.input((6, 4 // groups, *size))
        stride, padding = choice([1, 2]), choice([0, 1])
        out = [(e + 2 * padding - s) // stride + 1 for e, s in zip(extents, size, strict=True)]
        self.assign(f"conv{n}d({x}, {w}, stride={stride}, padding={padding}, groups={groups})", (2, 6, *out))

    def pooling(self, choice):
        x = self.input((2, self.length(), self.length() + 2, self.length() + 2))
        name, size, stride = choice(["max", "avg"]), choice([1, 2, 3]), choice([1, 2])
        *batch, height, width = self.shapes[x]
        out = [(e - size) // stride + 1 for e in (height, width)]
        self.assign(f"{name}_pool2d({x}, {size}, stride={stride})", (*batch, *out))

    def attention(self, choice):
        q = self.value(choice([2, 3]))
        *batch, n, width = self.shapes[q]
        n_keys, columns = n + self.length() - 1, self.length()
        k, v = self.input((*batch, n_keys, width)), self.input((*batch, n_keys, columns))
        self.assign(f"attention({q}, {k}, {v}, causal={choice([True, False])})", (*batch, n, columns))

    def scan(self, choice):
        x = self.value()
        axis = self.random.randrange(len(self.shapes[x]))
        name = choice(["cumsum", "cumprod", "cummax", "cummin"])
        self.assign(f"{name}({x}, axis={axis})", self.shapes[x])

    def sort(self, choice):
        x = self.value() if choice([True, False]) else self.input((choice([1, 2]), choice([40, 1500, 2100])))
        axis = self.random.randrange(len(self.shapes[x]))
        descending = choice([True, False])
        if choice([True, False]):
            self.assign(f"sort({x}, axis={axis}, descending={descending})", self.shapes[x])
        else:
            self.assign(f"argsort({x}, axis={axis}, descending={descending})", self.shapes[x], "i")

    def topk(self, choice):
        x = self.value() if choice([True, False]) else self.input((2, choice([33, 1200, 3001])))
        axis = self.random.randrange(len(self.shapes[x]))
        shape = list(self.shapes[x])
        shape[axis] = k = self.random.randint(1, min(shape[axis], 5))
        text = f"({x}, k={k}, axis={axis}, largest={choice([True, False])})"
        self.assign(f"topk_indices{text}", shape, "i") if choice([True, False]) else self.assign(
            f"topk{text}[0]", shape
        )

    def gather(self, choice):
        x = self.value()
        shape = list(self.shapes[x])
        axis = self.random.randrange(len(shape))
        n, shape[axis] = shape[axis], self.length()
        self.assign(f"gather({x}, {self.input(tuple(shape), n)}, axis={axis})", shape)

    def scatter_add(self, choice):
        x = self.value()
        shape = list(self.shapes[x])
        axis = self.random.randrange(len(shape))
        n, shape[axis] = shape[axis], self.length()
        index, updates = self.input(tuple(shape), n), self.input(tuple(shape))
        self.assign(f"scatter_add({x}, {index}, {updates}, axis={axis})", self.shapes[x])

    def embedding(self, choice):
        table, n = self.value(2), self.length()
        n_rows, width = self.shapes[table]
        self.assign(f"embedding({table}, {self.input((n, 2), n_rows)})", (n, 2, width))

    def one_hot(self, choice):
        n, classes = self.length(), self.length()
        self.assign(f"one_hot({self.input((n,), classes)}, {classes})", (n, classes))

    def reduction(self, choice):
        x = self.value()
        axis = self.random.randrange(len(self.shapes[x]))
        shape = [1 if place == axis else extent for place, extent in enumerate(self.shapes[x])]
        self.assign(f"{choice(['sum', 'mean', 'max'])}({x}, axes={axis}, keepdims=True)", shape)


KINDS = [
    "elementwise", "elementwise", "elementwise", "binary", "binary", "product", "product", "einsum", "convolution",
    "pooling", "attention", "scan", "sort", "topk", "gather", "scatter_add", "embedding", "one_hot", "reduction",
]  # fmt: skip


def program(number):
    """A random function, as text, and its arguments: shapes, element types, and of indices the number of elements."""
    writer = _Writer(number)
    for _ in range(writer.random.randint(2, 9)):
        writer.statement()
    results = [line.split()[0] for line in writer.lines[-3:]]
    body = "\n    ".join([*writer.lines, f"return {', '.join(results)}"])
    return f"def f({', '.join(writer.inputs)}):\n    {body}\n", list(writer.inputs.values())


class Recorder(compare.Recorder):
    """Takes a NaN for any other, whatever its sign and payload."""

    def describe(self, value, depth=0):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value = np.where(np.isnan(value), np.array(np.nan, value.dtype), value)
        return super().describe(value, depth)


def world(inputs, seed):
    """Makes what a random function is called with."""

    def make(text):
        import polyloom

        random_ = np.random.default_rng(seed)
        arguments = []
        for shape, dtype, n in inputs:
            if n is not None:
                arguments.append(random_.integers(-n, n, shape))
                continue
            array = random_.uniform(-2, 2, shape).astype(dtype)
            if seed % 3 == 0 and array.ndim > 1:
                array = np.asfortranarray(array)
            if seed % 5 == 0 and array.size:
                array.flat[random_.integers(array.size)] = np.nan
            arguments.append(array)
        return texts.loaded(text, {"ops": polyloom.ops}), arguments, {}, []

    return make
