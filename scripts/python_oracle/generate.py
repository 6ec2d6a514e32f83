"""Random programs in what Python and kernels share.

A program is a module: constants, structs, functions with and without effects, a kernel of one thread, and definitions
that come too late for it. Expressions are well typed and loops are short; values are not kept small, since numbers that
wrap around are modelled. Whatever a kernel computes ends in one of its output arrays.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
VECTORS = {
    "vec2": ("float32", 2),
    "vec3": ("float32", 3),
    "vec4": ("float32", 4),
    "vec3i": ("int32", 3),
    "vec4i": ("int32", 4),
    "vec2d": ("float64", 2),
    "vec4ub": ("uint8", 4),
}
MATRICES = {"mat22": ("float32", 2), "mat33": ("float32", 3), "mat22d": ("float64", 2)}
# The vector that a row of a matrix is.
ROWS = {"mat22": "vec2", "mat33": "vec3", "mat22d": "vec2d"}
STRUCTS = {
    "Pair": {"a": "int32", "b": "float32"},
    "Body": {"p": "vec3", "m": "mat22", "n": "int32", "q": "Pair"},
}
# Parameters that are arrays: their element types and extents. `log` has what functions with effects leave.
ARRAYS = {
    "ai": ("int32", (8,)),
    "af": ("float32", (8,)),
    "al": ("int64", (8,)),
    "ab": ("uint8", (8,)),
    "gf": ("float32", (4, 4)),
    "gi": ("int32", (2, 8)),
    "av": ("vec3", (4,)),
    "am": ("mat22", (4,)),
    "asb": ("Body", (4,)),
}
N_LOG = 128
N_OUTPUTS = 256


def type_text(name: str) -> str:
    """How a type is written in a program."""
    return name if name in STRUCTS or name == "bool" else f"loom.{name}"


@dataclasses.dataclass
class Program:
    """A program's text and what its kernel is called with."""

    seed: int
    source: str
    # Types of the kernel's scalar parameters, in order.
    scalars: dict[str, str]


@dataclasses.dataclass
class Function:
    """A function of the program that expressions may call."""

    name: str
    parameters: list[tuple[str, str]]
    result: str
    has_effect: bool


class Generator:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.lines: list[str] = []
        self.indent = 0
        self.n_names = 0
        self.budget = 0
        # The variables that are set on every path to here, by name; and those that may not be assigned.
        self.variables: dict[str, str] = {}
        self.locked: set[str] = set()
        self.views: dict[str, str] = {}
        self.functions: list[Function] = []
        self.constants: dict[str, str] = {}
        self.in_kernel = False
        # The loops around a statement, the innermost last; and how deep the text was indented in the body of each.
        self.loops: list[tuple[str, str, int]] = []
        # True where a kernel takes no calls with effects: in the bounds of a slice.
        self.without_effects = False

    # ---- text -------------------------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new_name(self, prefix: str = "v") -> str:
        self.n_names += 1
        return f"{prefix}{self.n_names}"

    def program(self) -> Program:
        self.emit("import polyloom as loom")
        self.emit("")
        for _ in range(self.random.randint(1, 3)):
            name, scalar = self.new_name("C"), self.random.choice(("int32", "float32"))
            self.constants[name] = scalar
            self.emit(f"{name} = {self.number(scalar)}")
        self.emit(f"W = ({', '.join(self.number('int32') for _ in range(4))})")
        for struct, fields in STRUCTS.items():
            self.emit("")
            self.emit("")
            self.emit("@loom.struct")
            self.emit(f"class {struct}:")
            for name, field in fields.items():
                self.emit(f"    {name}: {type_text(field)}")
        self.effects()
        for _ in range(self.random.randint(1, 3)):
            self.function()
        scalars = self.kernel()
        self.too_late()
        return Program(self.seed, "\n".join(self.lines) + "\n", scalars)

    def effects(self) -> None:
        """Functions that note in `log` that they were called, and give what they are given."""
        for scalar in ("int32", "float32", "int64", "uint8"):
            name = f"note_{scalar}"
            self.emit("")
            self.emit("")
            self.emit("@loom.func")
            self.emit(f"def {name}(log: loom.array(dtype=loom.int32), tag: int, value: {type_text(scalar)}):")
            self.emit("    n = log[0]")
            self.emit(f"    log[1 + (n & {N_LOG - 1})] = tag")
            self.emit("    log[0] = n + 1")
            self.emit("    return value")
        self.emit("")
        self.emit("")
        self.emit("@loom.func")
        self.emit("def bump(a: loom.array(dtype=loom.int32), i: int, by: int):")
        self.emit("    a[i & 7] = a[i & 7] + by")
        self.emit("    return a[(i + 1) & 7]")

    def function(self) -> None:
        """A function of scalars and composites, whose parameters it may change."""
        types = [*INTS, "float32", "float64", *VECTORS, *MATRICES, *STRUCTS]
        parameters = [(self.new_name("p"), self.random.choice(types)) for _ in range(self.random.randint(1, 4))]
        result = self.random.choice(types)
        name = self.new_name("f")
        self.emit("")
        self.emit("")
        self.emit("@loom.func")
        typed = ", ".join(f"{p}: {type_text(t)}" for p, t in parameters)
        self.emit(f"def {name}({typed}):")
        self.variables, self.locked, self.views = dict(parameters), set(), {}
        self.indent += 1
        self.budget = self.random.randint(2, 6)
        self.block()
        if self.chance(0.3):
            self.emit(f"if {self.condition()}:")
            self.emit(f"    return {self.of(result)}")
        self.emit(f"return {self.of(result)}")
        self.indent -= 1
        self.functions.append(Function(name, parameters, result, False))

    def kernel(self) -> dict[str, str]:
        in_factory = self.chance(0.25)
        scalars = {f"s{i}": self.random.choice(INTS + FLOATS) for i in range(5)}
        self.emit("")
        self.emit("")
        if in_factory:
            self.emit("def make(FACTOR, SHIFT):")
            self.indent += 1
            self.constants |= {"FACTOR": "float32", "SHIFT": "int32"}
            if self.chance(0.5):
                # A local of the factory shadows the module's constant.
                name = next(iter(self.constants))
                self.emit(f"{name} = {self.number(self.constants[name])}")
        arrays = [f"{name}: loom.array(dtype={type_text(t)}, ndim={len(s)})" for name, (t, s) in ARRAYS.items()]
        outputs = [
            "log: loom.array(dtype=int)",
            "oi: loom.array(dtype=loom.int64)",
            "of: loom.array(dtype=loom.float64)",
        ]
        typed = [f"{name}: {type_text(t)}" for name, t in scalars.items()]
        self.emit("@loom.kernel")
        self.emit(f"def k({', '.join(arrays + outputs + typed)}):")
        self.indent += 1
        self.in_kernel = True
        self.variables, self.locked, self.views = dict(scalars), set(scalars), {}
        self.functions += [
            Function(f"note_{t}", [("tag", "int32"), ("value", t)], t, True)
            for t in ("int32", "float32", "int64", "uint8")
        ]
        self.emit("at = 0")
        for t in ("int32", "float32", "vec4", "mat33", "Body"):
            name = self.new_name()
            self.emit(f"{name} = {self.of(t)}")
            self.variables[name] = t
        self.budget = self.random.randint(6, 18)
        while self.budget > 0:
            self.statement()
        slot = iter(range(N_OUTPUTS))
        for name, t in self.variables.items():
            self.store(name, t, slot)
        self.in_kernel = False
        self.indent -= 1
        if in_factory:
            self.emit("return k")
            self.indent -= 1
            self.emit("")
            self.emit("")
            self.emit(f"k = make({self.number('float32')}, {self.number('int32')})")
        return scalars

    def too_late(self) -> None:
        """Changes of what the kernel has captured."""
        name = self.random.choice([c for c in self.constants if c.startswith("C")])
        self.emit(f"{name} = {self.number(self.constants[name])}")
        if self.chance(0.5):
            function = next(f for f in self.functions if not f.has_effect)
            self.emit("")
            self.emit("")
            self.emit("@loom.func")
            self.emit(f"def {function.name}({', '.join(f'{p}: {type_text(t)}' for p, t in function.parameters)}):")
            self.emit(f"    return {self.zero(function.result)}")

    def store(self, expression: str, t: str, slot: Iterator[int]) -> None:
        """Stores all numbers of a value in the outputs."""
        if t in STRUCTS:
            for name, field in STRUCTS[t].items():
                self.store(f"{expression}.{name}", field, slot)
        elif t in MATRICES:
            for i in range(MATRICES[t][1] ** 2):
                self.store(f"{expression}[{i // MATRICES[t][1]}, {i % MATRICES[t][1]}]", MATRICES[t][0], slot)
        elif t in VECTORS:
            for i in range(VECTORS[t][1]):
                self.store(f"{expression}[{i}]", VECTORS[t][0], slot)
        elif t == "bool":
            self.emit(f"oi[{next(slot)}] = loom.int64(1 if {expression} else 0)")
        elif t in FLOATS:
            self.emit(f"of[{next(slot)}] = loom.float64({expression})")
        else:
            self.emit(f"oi[{next(slot)}] = loom.int64({expression})")

    @property
    def may_have_effects(self) -> bool:
        return self.in_kernel and not self.without_effects

    # ---- expressions ------------------------------------------------------------------------------------------------

    def number(self, scalar: str) -> str:
        """A literal that is a number of this type."""
        if scalar in FLOATS:
            return self.random.choice(("0.0", "1.0", "0.5", "2.0", "3.25", "1.5", "0.125", "7.0"))
        return str(self.random.choice((0, 1, 2, 3, 5, 7, 100)))

    def zero(self, t: str) -> str:
        if t in STRUCTS:
            return f"{t}()"
        return "False" if t == "bool" else f"{type_text(t)}(0)"

    def readable(self, t: str) -> list[str]:
        return [name for name, of in self.variables.items() if of == t]

    def of(self, t: str, depth: int = 0) -> str:
        """An expression of a type."""
        if t == "bool":
            return self.condition(depth)
        names = self.readable(t)
        kind = self.random.random()
        if depth > 2 or kind < 0.25:
            return self.random.choice(names) if names else self.leaf(t)
        calls = [
            f
            for f in self.functions
            if f.result == t and not (self.without_effects or f.has_effect and not self.in_kernel)
        ]
        if kind < 0.4 and calls:
            return self.call(self.random.choice(calls), depth)
        if kind < 0.5:
            return f"({self.of(t, depth + 1)} if {self.condition(depth + 1)} else {self.of(t, depth + 1)})"
        if t in STRUCTS:
            return self.construct_struct(t, depth)
        if t in VECTORS or t in MATRICES:
            return self.composite(t, depth)
        return self.scalar(t, depth)

    def leaf(self, t: str) -> str:
        if t in STRUCTS:
            return f"{t}()"
        if t in VECTORS:
            scalar, n = VECTORS[t]
            return f"{type_text(t)}({', '.join(self.number(scalar) for _ in range(n))})"
        if t in MATRICES:
            scalar, n = MATRICES[t]
            return f"{type_text(t)}({', '.join(self.number(scalar) for _ in range(n * n))})"
        return f"{type_text(t)}({self.number(t)})"

    def call(self, function: Function, depth: int) -> str:
        if function.has_effect:
            tag, value = str(self.random.randint(1, 9)), self.of(function.result, depth + 1)
            if self.chance(0.3):
                named = [f"value={value}", "log=log", f"tag={self.of('int32', depth + 2)}"]
                self.random.shuffle(named)
                return f"{function.name}({', '.join(named)})"
            return f"{function.name}(log, {tag}, {value})"
        n_positional = self.random.randint(0, len(function.parameters))
        arguments = [(name, self.of(t, depth + 1)) for name, t in function.parameters]
        named = [f"{name}={value}" for name, value in arguments[n_positional:]]
        self.random.shuffle(named)
        return f"{function.name}({', '.join([value for _, value in arguments[:n_positional]] + named)})"

    def construct_struct(self, t: str, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.3 and self.in_kernel and t == "Body":
            return f"asb[{self.index(4, depth + 1)}]"
        if kind < 0.4 and t == "Pair" and self.readable("Body"):
            return f"{self.random.choice(self.readable('Body'))}.q"
        values = [(name, self.of(field, depth + 1)) for name, field in STRUCTS[t].items()]
        if kind < 0.7:
            named = [f"{name}={value}" for name, value in values]
            self.random.shuffle(named)
            return f"{t}({', '.join(named)})"
        return f"{t}({', '.join(value for _, value in values)})"

    def composite(self, t: str, depth: int) -> str:
        scalar, n = VECTORS.get(t) or MATRICES[t]
        kind = self.random.random()
        if kind < 0.3:
            return f"({self.of(t, depth + 1)} {self.random.choice('+-')} {self.of(t, depth + 1)})"
        if kind < 0.4:
            return f"({self.of(t, depth + 1)} * {self.of(scalar, depth + 1)})"
        if kind < 0.45:
            return f"(-{self.of(t, depth + 1)})"
        if kind < 0.6:
            count = n if t in VECTORS else n * n
            return f"{type_text(t)}({', '.join(self.of(scalar, depth + 2) for _ in range(count))})"
        if kind < 0.7 and t in ("vec3", "mat22"):
            bodies = self.readable("Body")
            if bodies:
                return f"{self.random.choice(bodies)}.{'p' if t == 'vec3' else 'm'}"
        if kind < 0.8 and self.in_kernel and t in ("vec3", "mat22"):
            return f"{'av' if t == 'vec3' else 'am'}[{self.index(4, depth + 1)}]"
        rows = [m for m, row in ROWS.items() if row == t and self.readable(m)]
        if kind < 0.95 and rows:
            matrix = self.random.choice(rows)
            name, extent = self.random.choice(self.readable(matrix)), MATRICES[matrix][1]
            if self.chance(0.5):
                return f"{name}[{self.index(extent, depth + 1)}]"
            return f"{name}[:, {self.random.randrange(extent)}]"
        return self.leaf(t)

    def index(self, extent: int, depth: int) -> str:
        """An index of an axis that is in bounds: a constant, maybe from the end, or a run-time value."""
        if depth > 2 or self.chance(0.5):
            return str(self.random.randrange(-extent, extent))
        if extent & (extent - 1):
            return str(self.random.randrange(extent))
        integer = self.random.choice(INTS)
        return f"{self.of(integer, depth + 1)} & {extent - 1}"

    def scalar(self, t: str, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.3:
            return self.arithmetic(t, depth)
        if kind < 0.4:
            source = self.random.choice(INTS + FLOATS)
            name = {"int32": "int", "float32": "float"}.get(t, f"loom.{t}")
            return f"{name if self.chance(0.5) else f'loom.{t}'}({self.of(source, depth + 1)})"
        if kind < 0.5:
            return self.component(t, depth)
        if kind < 0.6 and self.in_kernel:
            arrays = [(name, shape) for name, (element, shape) in ARRAYS.items() if element == t]
            if arrays:
                name, shape = self.random.choice(arrays)
                return f"{name}[{', '.join(self.index(n, depth + 1) for n in shape)}]"
        if kind < 0.7:
            name = self.random.choice(("min", "max", "loom.min", "loom.max", "abs", "loom.clamp"))
            if name == "abs":
                return f"abs({self.of(t, depth + 1)})"
            n = 3 if name == "loom.clamp" else 2
            return f"{name}({', '.join(self.of(t, depth + 1) for _ in range(n))})"
        if kind < 0.75 and t in self.constants.values():
            name = self.random.choice([c for c, of in self.constants.items() if of == t])
            return f"({self.of(t, depth + 1)} {self.random.choice('+-*')} {name})"
        if kind < 0.8 and t == "int32":
            if self.may_have_effects and self.chance(0.4):
                return f"bump(ai, {self.of('int32', depth + 1)}, {self.of('int32', depth + 1)})"
            if self.views and self.chance(0.6):
                view = self.random.choice(list(self.views))
                return self.random.choice((f"{view}.shape[0]", f"len({view})"))
        if kind < 0.9:
            return f"loom.where({self.condition(depth + 1)}, {self.of(t, depth + 1)}, {self.of(t, depth + 1)})"
        if t in FLOATS:
            return f"loom.floor({self.of(t, depth + 1)})"
        return f"(~{self.of(t, depth + 1)})"

    def arithmetic(self, t: str, depth: int) -> str:
        operators = ["+", "-", "*", "/", "//", "%"] + ([] if t in FLOATS else ["&", "|", "^", "<<", ">>"])
        operator = self.random.choice(operators)
        left, right = self.of(t, depth + 1), self.of(t, depth + 1)
        if self.chance(0.2):
            right = self.number(t)
        elif self.chance(0.1) and operator not in ("<<", ">>"):
            left = self.number(t)
        return f"({left} {operator} {right})"

    def component(self, t: str, depth: int) -> str:
        holders = [
            name for name, of in self.variables.items() if (VECTORS.get(of) or MATRICES.get(of) or ("",))[0] == t
        ]
        if t in ("int32", "float32") and self.readable("Body") and self.chance(0.5):
            name = self.random.choice(self.readable("Body"))
            paths = {"int32": ("n", "q.a"), "float32": ("q.b", "p.x", "p[1]", "m[1, 0]")}[t]
            return f"{name}.{self.random.choice(paths)}"
        if not holders:
            return self.leaf(t)
        name = self.random.choice(holders)
        return f"{name}{self.component_path(self.variables[name], depth)}"

    def component_path(self, t: str, depth: int) -> str:
        n = (VECTORS.get(t) or MATRICES[t])[1]
        if t in MATRICES:
            return f"[{self.index(n, depth + 1)}, {self.index(n, depth + 1)}]"
        return f".{'xyzw'[self.random.randrange(n)]}" if self.chance(0.4) else f"[{self.index(n, depth + 1)}]"

    def condition(self, depth: int = 0) -> str:
        kind = self.random.random()
        if kind < 0.1 and self.readable("bool"):
            return self.random.choice(self.readable("bool"))
        if depth > 2 or kind < 0.55:
            t = self.random.choice((*INTS, "float32", "float64"))
            operators = ("<", "<=", "==", "!=", ">", ">=")
            left = self.of(t, depth + 1)
            right = self.number(t) if self.chance(0.3) else self.of(t, depth + 1)
            return f"{left} {self.random.choice(operators)} {right}"
        if kind < 0.7:
            t = self.random.choice(("int32", "float32"))
            parts = [self.of(t, depth + 1) for _ in range(self.random.randint(3, 4))]
            text = parts[0]
            for part in parts[1:]:
                text += f" {self.random.choice(('<', '<=', '==', '!=', '>'))} {part}"
            return f"({text})"
        if kind < 0.8:
            return f"(not {self.condition(depth + 1)})"
        return f"({self.condition(depth + 1)} {self.random.choice(('and', 'or'))} {self.condition(depth + 1)})"

    # ---- statements -------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """Some statements. What they set is not set behind them, unless it was before."""
        before = dict(self.variables)
        views = dict(self.views)
        for _ in range(self.random.randint(1, 3)):
            self.statement()
        self.variables, self.views = before, views

    def nested(self, header: str) -> None:
        self.emit(header)
        self.indent += 1
        self.block()
        self.indent -= 1

    def statement(self) -> None:
        self.budget -= 1
        kind = self.random.random()
        if self.budget < 0 or self.indent > 4 or kind < 0.3:
            self.assignment()
        elif kind < 0.48:
            self.tuple_assignment()
        elif kind < 0.58:
            self.update()
        elif kind < 0.7:
            self.branch()
        elif kind < 0.85:
            self.loop()
        elif kind < 0.93 and self.in_kernel:
            self.view()
        elif self.loops and self.chance(0.7):
            self.leave_loop()
        elif self.in_kernel and self.chance(0.3):
            self.emit(f"if {self.condition()}:")
            self.emit("    log[0] = -1")
            self.emit("    return")
        else:
            self.assignment()

    def leave_loop(self) -> None:
        kind, counter, indent = self.loops[-1]
        condition = self.condition()
        if kind == "unrolled":
            # Only conditions that are known at compilation decide how often a loop that is written out runs.
            if self.indent != indent:
                return self.assignment()
            condition = f"loom.static(W[{counter}] > 3)"
        self.emit(f"if {condition}:")
        self.emit(f"    {self.random.choice(('break', 'continue'))}")

    def assignment(self) -> None:
        types = ["int32", "float32", "int64", "uint8", "bool", *VECTORS, *MATRICES, *STRUCTS, self.random.choice(INTS)]
        target = self.part_target() if self.chance(0.4) else None
        if target:
            self.emit(f"{target[0]} = {self.of(target[1])}")
            return
        t = self.random.choice(types)
        free = [name for name in self.readable(t) if name not in self.locked]
        name = self.random.choice(free) if free and self.chance(0.6) else self.new_name()
        self.emit(f"{name} = {self.of(t)}")
        self.variables[name] = t

    def part_target(self) -> tuple[str, str] | None:
        """A part of a variable or array that can be assigned, and its type; nothing if there is none."""
        choices: list[tuple[str, str]] = []
        for name, t in self.variables.items():
            if name in self.locked:
                continue
            if t in VECTORS or t in MATRICES:
                choices.append((f"{name}{self.component_path(t, 1)}", (VECTORS.get(t) or MATRICES[t])[0]))
            if t in MATRICES:
                row = self.random.randrange(MATRICES[t][1])
                choices += [(f"{name}[{row}]", ROWS[t]), (f"{name}[:, {row}]", ROWS[t])]
            if t in ("vec3", "vec4"):
                start = self.random.randrange(VECTORS[t][1] - 1)
                choices.append((f"{name}[{start}:{start + 2}]", "vec2"))
            if t == "Body":
                choices += [
                    (f"{name}.p", "vec3"), (f"{name}.n", "int32"), (f"{name}.q", "Pair"), (f"{name}.q.b", "float32"),
                    (f"{name}.p.y", "float32"), (f"{name}.m[0]", "vec2"), (f"{name}.m[:, 1]", "vec2"),
                    (f"{name}.p[1:3]", "vec2"),
                ]  # fmt: skip
            if t == "Pair":
                choices += [(f"{name}.a", "int32"), (f"{name}.b", "float32")]
        if self.in_kernel:
            array, (element, shape) = self.random.choice(list(ARRAYS.items()))
            at = f"{array}[{', '.join(self.index(n, 1) for n in shape)}]"
            choices.append((at, element))
            if element == "Body":
                choices += [(f"{at}.n", "int32"), (f"{at}.p", "vec3"), (f"{at}.p[0]", "float32")]
            if element == "vec3":
                choices += [(f"{at}.z", "float32"), (f"{at}[0]", "float32")]
            if element == "mat22":
                choices += [(f"{at}[1]", "vec2"), (f"{at}[0, 1]", "float32")]
        return self.random.choice(choices) if choices else None

    def tuple_assignment(self) -> None:
        targets: list[tuple[str, str]] = []
        for _ in range(self.random.randint(2, 3)):
            part = self.part_target() if self.chance(0.65) else None
            if part:
                targets.append(part)
            else:
                t = self.random.choice(("int32", "float32", "vec2", "int64"))
                free = [name for name in self.readable(t) if name not in self.locked]
                targets.append((self.random.choice(free) if free else self.new_name(), t))
        if self.chance(0.4):
            # Swaps of parts of one type: the values are other targets.
            swapped = [(text, t) for text, t in targets if self.is_set(text)]
            same = [x for x in swapped if x[1] == swapped[0][1]] if swapped else []
            if len(same) >= 2:
                texts = [text for text, _ in same]
                self.emit(f"{', '.join(texts)} = {', '.join(texts[1:] + texts[:1])}")
                return
        self.emit(f"{', '.join(text for text, _ in targets)} = {', '.join(self.of(t) for _, t in targets)}")
        for text, t in targets:
            if text.isidentifier():
                self.variables[text] = t

    def is_set(self, target: str) -> bool:
        return not target.isidentifier() or target in self.variables

    def update(self) -> None:
        part = self.part_target()
        if not part:
            return self.assignment()
        target, t = part
        free = [name for name, of in self.variables.items() if of in INTS + FLOATS and name not in self.locked]
        if free and self.chance(0.4):
            target = self.random.choice(free)
            t = self.variables[target]
        if t in INTS:
            self.emit(f"{target} {self.random.choice('+-*&|^')}= {self.of(t, 1)}")
        elif t in FLOATS:
            self.emit(f"{target} {self.random.choice('+-*/')}= {self.of(t, 1)}")
        elif t in VECTORS and VECTORS[t][0] in FLOATS and target.isidentifier():
            self.emit(f"{target} {self.random.choice('+-')}= {self.of(t, 1)}")
        else:
            self.emit(f"{target} = {self.of(t)}")

    def branch(self) -> None:
        self.nested(f"if {self.condition()}:")
        if self.chance(0.4):
            self.nested(f"elif {self.condition()}:")
        if self.chance(0.6):
            self.nested("else:")
        if self.chance(0.4):
            # A variable that each branch makes is there behind them.
            name, t = self.new_name(), self.random.choice(("int32", "float32", "vec3"))
            self.emit(f"if {self.condition()}:")
            self.emit(f"    {name} = {self.of(t)}")
            self.emit("else:")
            self.emit(f"    {name} = {self.of(t)}")
            self.variables[name] = t

    def loop(self) -> None:
        kind = self.random.random()
        if kind < 0.25:
            self.unrolled_loop()
        elif kind < 0.4:
            self.while_loop()
        else:
            self.range_loop()

    def range_loop(self) -> None:
        t = self.random.choice(("int32", "int32", *INTS))
        counters = [name for name in self.readable(t) if name not in self.locked]
        counter = self.random.choice(counters) if counters and self.chance(0.5) else self.new_name("i")
        cast = "" if t == "int32" else f"loom.{t}"
        kind = self.random.random()
        surely = False
        if kind < 0.3:
            n = self.random.randint(0, 4)
            header, surely = f"range({cast}({n}))" if cast else f"range({n})", n > 0
        elif kind < 0.6:
            lower, upper = (f"{self.of(t, 1)} & 3" for _ in range(2))
            header = f"range({lower}, {upper})"
        elif kind < 0.8 and t.startswith("int"):
            bits = int(t[3:])
            high = (1 << (bits - 1)) - 1
            step = self.random.choice((1, 2, high // 2, high))
            values = f"{high - 3}, {high}, {step}" if self.chance(0.5) else f"{-high + 3}, {-high - 1}, {-step}"
            header = f"range({', '.join(f'loom.{t}({v})' for v in values.split(', '))})"
            surely = True
        else:
            header = f"range({self.of(t, 1)} & 7, {self.of(t, 1)} & 7, {self.random.choice((1, 2, 3))})"
        self.emit(f"for {counter} in {header}:")
        was_set = counter in self.variables
        self.loop_body(counter, t, "range")
        if surely or was_set:
            self.variables[counter] = t

    def loop_body(self, counter: str, t: str, kind: str) -> None:
        before = dict(self.variables)
        lock = {counter} - self.locked if kind == "unrolled" else set()
        self.variables[counter] = t
        self.locked |= lock
        self.indent += 1
        self.loops.append((kind, counter, self.indent))
        self.block()
        self.indent -= 1
        self.loops.pop()
        self.locked -= lock
        self.variables = before
        if self.chance(0.2):
            self.nested("else:")

    def unrolled_loop(self) -> None:
        """A loop that is written out, since a static expression or the index of a tuple names its counter."""
        # The counter of a loop around would have that written out too, which then could not be left at run time.
        around = {counter for _, counter, _ in self.loops}
        counters = [name for name in self.readable("int32") if name not in self.locked | around]
        counter = self.random.choice(counters) if counters and self.chance(0.5) else self.new_name("i")
        header = self.random.choice(("range(4)", "range(1, 4)", "range(3, -1, -1)", "range(0, 4, 3)"))
        use = f"loom.static(W[{counter}])"
        if self.chance(0.5):
            name = self.new_name("t")
            self.emit(f"{name} = ({', '.join(self.of('int32', 1) for _ in range(4))})")
            use = f"{name}[{counter}]"
        total = self.new_name()
        self.emit(f"{total} = {self.of('int32', 1)}")
        self.variables[total] = "int32"
        self.emit(f"for {counter} in {header}:")
        self.emit(f"    {total} += {use}")
        self.loop_body(counter, "int32", "unrolled")
        self.variables[counter] = "int32"

    def while_loop(self) -> None:
        counter = self.new_name("w")
        self.emit(f"{counter} = 0")
        self.variables[counter] = "int32"
        self.locked.add(counter)
        self.emit(f"while {counter} < {self.random.randint(1, 4)} and {self.condition(1)}:")
        self.emit(f"    {counter} += 1")
        before = dict(self.variables)
        self.indent += 1
        self.loops.append(("while", counter, self.indent))
        self.block()
        self.indent -= 1
        self.loops.pop()
        self.variables = before
        if self.chance(0.2):
            self.nested("else:")

    def view(self) -> None:
        """A slice of an array whose bounds have any integer types and values, and what is done with it."""
        array = self.random.choice(("ai", "af", "al", "ab"))
        element = ARRAYS[array][0]
        self.without_effects = True
        bounds = [self.of(self.random.choice(INTS), 1) if self.chance(0.7) else "" for _ in range(2)]
        step = self.random.choice(("", "", "1", "2", "-1", "-3", "2147483647", "run-time"))
        if step == "run-time":
            step = f"({self.of(self.random.choice(('int8', 'int32', 'int64', 'uint32', 'uint64')), 1)} | 1)"
        self.without_effects = False
        name = self.new_name("r")
        self.emit(f"{name} = {array}[{bounds[0]}:{bounds[1]}{f':{step}' if step else ''}]")
        self.views[name] = element
        if self.chance(0.7):
            self.emit(f"if {name}.shape[0] > 0:")
            at = self.random.choice(("0", "-1", f"{name}.shape[0] - 1"))
            self.emit(f"    {name}[{at}] = {self.of(element, 1)}")
        if self.chance(0.5):
            counter, total = self.new_name("i"), self.new_name()
            self.emit(f"{total} = {self.leaf(element)}")
            self.variables[total] = element
            self.emit(f"for {counter} in range({name}.shape[0]):")
            self.emit(f"    {total} += {name}[{counter}]")
