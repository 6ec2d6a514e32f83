"""Random programs in NumPy's spelling, the values that they are called with, and what of their outcomes is compared."""

import ast
import random
import warnings
from functools import partial

import numpy as np

from . import compare, texts

# The first are exact of small integers, whatever the order; the others are not, but have no jumps.
EXACT_BINARY = ["+", "-", "*", "np.maximum", "np.minimum", "np.add", "np.subtract", "np.multiply"]
EXACT_UNARY = [
    "-",
    "abs",
    "np.abs",
    "np.square",
    "np.negative",
    "np.sign",
    "np.floor",
    "np.ceil",
    "np.rint",
    "np.trunc",
]
SMOOTH_BINARY = ["+", "-", "*", "/", "np.hypot", "np.arctan2", "np.divide", "np.maximum"]
SMOOTH_UNARY = [
    "np.exp", "np.sin", "np.cos", "np.tanh", "np.sqrt", "np.log1p", "np.expm1", "np.arctan", "-", "np.abs", "np.square",
    "np.cbrt", "np.log", "np.exp2", "np.arcsinh",
]  # fmt: skip
INTEGER_BINARY = ["//", "%", "&", "|", "^", "np.bitwise_and", "np.floor_divide", "np.remainder"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!=", "np.less", "np.equal"]
REDUCTIONS = ["sum", "max", "min", "mean", "prod", "any", "all", "argmax", "argmin", "std", "var", "cumsum"]
INDICES = ["1:", ":-1", "::-1", "None, :", "..., 1:", "0", "-1", ":, :1", "..., None", "1:3", "::2", ":, 0", "1:, :-1"]
HELPERS = """\
def helper(x, y):
    z = x * 2
    return z + y
def scaled(x, by=3):
    x = x * by
    return x - 1
def larger(x, y):
    return np.maximum(y, x)
"""
DTYPES = ["np.float32", "np.float64", "float", "np.int64", "'float32'", "bool", "np.int16", "np.uint8"]


class ProgramWriter:
    """Writes one program. `is_exact` programs compute with integers alone, and are compared bit for bit."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.is_exact = self.random.random() < 0.5
        self.names = ["a", "b", "c", "v"]
        self.lines = []
        self.n_names = 0

    def pick(self, values):
        return self.random.choice(values)

    def expression(self, depth):
        chance = self.random.random()
        if depth <= 0 or chance < 0.1:
            return self.pick(self.names)
        inner = self.expression(depth - 1)
        if chance < 0.16:
            return self.helped(inner)
        if chance < 0.45:
            operators = EXACT_BINARY if self.is_exact else SMOOTH_BINARY
            if self.is_exact and self.random.random() < 0.2:
                operators = INTEGER_BINARY
            return self.applied(self.pick(operators), inner, self.operand(depth - 1))
        if chance < 0.6:
            name = self.pick(EXACT_UNARY if self.is_exact else SMOOTH_UNARY)
            return f"(-{inner})" if name == "-" else f"{name}({inner})"
        if chance < 0.7 and self.is_exact:
            test = self.applied(self.pick(COMPARISONS), inner, self.operand(0))
            form = self.random.random()
            if form < 0.6:
                return f"np.where({test}, {self.operand(depth - 1)}, {self.operand(0)})"
            return test if form < 0.8 else f"(~{test})"
        if chance < 0.8:
            return self.reduction(inner)
        if chance < 0.88:
            return f"{self.bracketed(inner)}[{self.pick(INDICES)}]"
        if chance < 0.92:
            view = self.pick(
                [".T", ".reshape(-1)", ".reshape(4, 3)", ".reshape((2, -1))", ".transpose()", ".swapaxes(0, 1)"]
            )
            return f"{self.bracketed(inner)}{view}"
        if chance < 0.95:
            return f"{self.bracketed(inner)}.astype({self.pick(DTYPES)})"
        if chance < 0.97 and self.is_exact:
            return f"np.clip({inner}, {self.operand(0)}, {self.operand(0)})"
        return f"({inner}) ** {self.pick(['2'] if self.is_exact else ['2', '0.5', '2.0', 'n'])}"

    def helped(self, inner):
        """The call of a function of the program that does nothing but call NumPy."""
        form = self.pick(["helper({}, {})", "helper(y={}, x={})", "scaled({})", "scaled({}, {})", "larger({}, y={})"])
        return form.format(inner, self.operand(0))

    def bracketed(self, text):
        return text if text.isidentifier() else f"({text})"

    def applied(self, operator, a, b):
        return f"{operator}({a}, {b})" if operator.startswith("np.") else f"({a} {operator} {b})"

    def operand(self, depth):
        chance = self.random.random()
        if chance < 0.2:
            return self.pick(["2", "1", "3", "0"] if self.is_exact else ["2.0", "0.5", "1", "3", "np.pi"])
        if chance < 0.35:
            return self.pick(["n", "n", "s", "G", "k", "p['u']", "p['w']"])
        return self.expression(depth)

    def reduction(self, inner):
        name = self.pick(REDUCTIONS[:4] if self.random.random() < 0.6 else REDUCTIONS)
        if self.is_exact and name in ("mean", "std", "var", "prod"):
            name = "sum"
        if not self.is_exact and name in ("any", "all", "argmax", "argmin"):
            name = "max"
        options = ["axis=0", "axis=-1", "", "axis=1", "axis=0, keepdims=True", "keepdims=True", "axis=(0, 1)"]
        option = self.pick(options)
        if name in ("cumsum", "argmax", "argmin"):
            option = self.pick(["axis=0", "axis=-1"])
        if self.random.random() < 0.5:
            return f"np.{name}({inner}{', ' * bool(option)}{option})"
        return f"{self.bracketed(inner)}.{name}({option})"

    def bind(self, text):
        if self.random.random() < 0.25 and len(self.names) > 4:
            name = self.pick(self.names[4:])
        else:
            self.n_names += 1
            name = f"t{self.n_names}"
        return name, f"{name} = {text}"

    def statement(self, indent, depth):
        chance = self.random.random()
        space = "    " * indent
        if chance < 0.62:
            name, line = self.bind(self.expression(self.pick([1, 2, 2, 3])))
            self.lines.append(space + line)
            if name not in self.names:
                self.names.append(name)
        elif chance < 0.68:
            self.lines.append(f"{space}{self.pick(self.names)} {self.pick(['+=', '*=', '-='])} {self.operand(1)}")
        elif chance < 0.74:
            target = self.pick(self.names)
            self.lines.append(f"{space}{target}[{self.pick(['1:', '0', '...', ':, 0'])}] = {self.operand(1)}")
        elif chance < 0.79:
            self.lines.append(f"{space}k = {self.pick(['n * 2', 'n + 1', 'len(a)', 'a.shape[0]', 'n - 1'])}")
        elif chance < 0.84:
            callee = self.pick(["log.append", "unknown", "print"])
            name = self.pick(self.names)
            # Digits that are printed differ by rounding.
            printed = name if self.is_exact or callee != "print" else f"np.shape({name})"
            self.lines.append(f"{space}{callee}({printed})")
        elif chance < 0.88:
            self.lines.append(f"{space}{self.pick(self.names[:4])} = {self.pick(self.names)}")
        elif chance < 0.9:
            self.lines.append(
                f"{space}b = np.asarray(b)"
                if self.random.random() < 0.5
                else f"{space}c = helper(c, {self.pick(self.names)})"
            )
        elif depth > 0:
            known = list(self.names)
            if chance < 0.96:
                self.lines.append(f"{space}if flag:")
                self.block(indent + 1, depth - 1)
                self.names = list(known)
                if self.random.random() < 0.5:
                    self.lines.append(f"{space}else:")
                    self.block(indent + 1, depth - 1)
            elif chance < 0.98:
                self.lines.append(f"{space}for i in range(2):")
                self.block(indent + 1, depth - 1)
            else:
                self.lines.append(f"{space}try:")
                self.block(indent + 1, depth - 1)
                self.lines.append(
                    f"{space}except (ValueError, TypeError, IndexError):\n{space}    log.append('caught')"
                )
            self.names = known
        else:
            self.lines.append(f"{space}pass")

    def block(self, indent, depth):
        for _ in range(self.pick([1, 2, 3])):
            self.statement(indent, depth)

    def program(self):
        for _ in range(self.pick([2, 3, 4, 5, 7])):
            self.statement(1, 2)
        results = ", ".join(self.pick(self.names) for _ in range(self.pick([1, 1, 2, 3])))
        text = self.expression(2) if self.random.random() < 0.5 else results
        body = "\n".join(self.lines)
        text = f"{HELPERS}def f(a, b, c, v, n, s, flag, log, k=3, p=P):\n{body}\n    return {text}\n"
        ast.parse(text)
        return text


class Approximate:
    """An array or number that equals others up to rounding."""

    def __init__(self, value, limit):
        self.value, self.limit = np.array(value), limit

    def __eq__(self, other):
        a, b = self.value, other.value
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind not in "fc" or not self.limit:
            return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        with np.errstate(all="ignore"):
            wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
            finite = np.abs(wide_a[np.isfinite(wide_a)])
            scale = max(1.0, finite.max(initial=0.0))
            limit = max(self.limit, {2: 2e-2, 4: 2e-4}.get(a.dtype.itemsize, 0))
            return np.allclose(wide_a, wide_b, rtol=limit, atol=limit * scale, equal_nan=True)

    __hash__ = None

    def __repr__(self):
        return f"{self.value.dtype} {self.value.tolist()}"


class NumpyRecorder(compare.Recorder):
    """Describes numbers and arrays by values that are equal up to `limit`."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def describe(self, value, depth=0):
        if isinstance(value, (float, np.generic)):
            return type(value).__name__, Approximate(value, self.limit)
        if isinstance(value, np.ndarray) and value.dtype != object:
            known = id(value) in self.numbers
            self.kept.append(value)
            number = self.numbers.setdefault(id(value), len(self.numbers))
            if known:
                return "again", number
            self.arrays.append(value)
            return type(value).__name__, number, value.flags.writeable, Approximate(value, self.limit)
        return super().describe(value, depth)


def world(seed, is_exact):
    """What makes the values of a call."""

    def make(text):
        numbers = random.Random(seed)
        wholes = np.random.default_rng(seed)
        kinds = ["f8", "f8", "f4", "f4", "i8", "i4", "u1", "i2"] if is_exact else ["f8", "f4"] if seed % 2 else ["f8"]
        shape = numbers.choice([(3, 4), (3, 4), (3, 4), (3, 4), (1, 4), (2, 6), (0, 4), (4,), ()])

        def array(shape):
            dtype = numbers.choice(kinds)
            if is_exact:
                return wholes.integers(0, 4, shape).astype(dtype)
            return np.asarray(wholes.uniform(0.25, 2.0, shape).astype(dtype))

        a, b, c = array(shape), array(shape), array(shape)
        v = array(shape[-1:])
        chance = numbers.random()
        if chance < 0.1:
            b = a
        elif chance < 0.15:
            b = np.asfortranarray(a)
        elif chance < 0.2:
            c = numbers.choice([np.matrix(np.ones((3, 4))), np.ma.masked_array(np.ones(shape)), 2, 1.5, [1, 2], None])
        elif chance < 0.23:
            a = a.astype(a.dtype.newbyteorder())
        elif chance < 0.26:
            v = numbers.choice([3, np.float32(2), True, np.int8(2)])
        n = numbers.choice([2, 1, 3, 2.0, np.float32(2), np.int64(1), True, 0])
        if not is_exact:
            n = numbers.choice([2, 0.5, 1.5, np.float64(2), 1])
        s = numbers.choice([1, 2.0, np.float64(1), np.array(2.0), np.int32(1), np.array([2])])
        log = []
        changes = random.Random(seed + 1)

        def unknown(value):
            log.append(repr(type(value)))
            if isinstance(value, np.ndarray) and value.flags.writeable and changes.random() < 0.5:
                value *= 2

        names = {"np": np, "unknown": unknown, "G": numbers.choice([np.array([[2.0], [1.0], [1.0]]), 2.0, 3])}
        names["P"] = {"u": array(shape), "w": numbers.choice([2, 1, a])}
        namespace = texts.loaded(text, names)
        arguments = [a, b, c, v, n, s, bool(seed % 2), log]
        return namespace, arguments, {}, [log]

    return make


def difference(text, seed, fuse):
    """What differs of a program's two calls, as text, or nothing; and the fused function."""
    is_exact = text.endswith("# exact\n")
    # Rounding of 32 bits may be on the way to 64.
    has_narrow = bool(seed % 2) or "float32" in text or "float16" in text
    limit = 0 if is_exact else 2e-4 if has_narrow else 1e-9
    recorder = partial(NumpyRecorder, limit)
    action = "raise" if seed % 11 == 10 else "warn"
    make = world(seed, is_exact)
    with warnings.catch_warnings(), np.errstate(all=action, under="ignore"):
        warnings.simplefilter("ignore")
        plain, _ = compare.outcome(text, "f", make, lambda function: function, recorder)
        fused, function = compare.outcome(text, "f", make, fuse, recorder)
    for a, b in zip(plain, fused, strict=True):
        if a != b:
            return f"plain {a}\nfused {b}", function
    return None, function


def program(seed):
    writer = ProgramWriter(seed)
    text = writer.program()
    return text + ("# exact\n" if writer.is_exact else "")
