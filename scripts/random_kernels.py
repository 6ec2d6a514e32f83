"""Write random kernels with the results CPython gives them, as file tests.

    python3 scripts/random_kernels.py tests/filetests/random 0 500
    POLYLOOM_FILETESTS=random cargo test -p polyloom-filetests files
    rm -r tests/filetests/random

Every kernel is ordinary Python on small integers: nested branches and loops with `else`, `break`, `continue` and
`return`, conditional expressions, short-circuit conditions, updates of array elements. CPython runs the same text on a
list, so front end, passes and interpreter are checked against the language itself. Values stay far below 2**31, and
operators whose meaning differs between Python and kernels (`/`, `%`) are not used.
"""

import pathlib
import random
import sys

KERNELS_PER_FILE = 10
VARIABLES = ["v0", "v1", "v2", "v3"]
N_ELEMENTS = 6


class Generator:
    """The body of one random kernel."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = [f"    {name} = a[{i}]" for i, name in enumerate(VARIABLES)]
        self.n_names = 0
        self.budget = self.random.randint(8, 40)
        self.block(1, 0, False)
        self.block(1, 0, False)
        self.lines += ["    a[4] = v0 + v1", "    a[5] = v2 ^ v3"]

    def emit(self, indent, text):
        self.lines.append("    " * indent + text)

    def new_name(self, prefix):
        self.n_names += 1
        return f"{prefix}{self.n_names}"

    def expression(self, depth=0):
        kind = self.random.random()
        if depth > 2 or kind < 0.4:
            return self.random.choice(VARIABLES)
        if kind < 0.55:
            return str(self.random.randint(0, 9))
        if kind < 0.65:
            return f"a[{self.random.choice(VARIABLES)} & 3]"
        left, right = self.expression(depth + 1), self.expression(depth + 1)
        if kind < 0.72:
            return f"({left} if {self.condition(depth + 1)} else {right})"
        return f"(({left} {self.random.choice('+-*&|^')} {right}) & 1023)"

    def condition(self, depth=0):
        kind = self.random.random()
        if depth > 2 or kind < 0.5:
            operator = self.random.choice(["<", "<=", "==", "!=", ">"])
            return f"{self.expression(2)} {operator} {self.expression(2)}"
        if kind < 0.6:
            return f"{self.expression(2)} < {self.expression(2)} <= {self.expression(2)}"
        if kind < 0.7:
            return f"not ({self.condition(depth + 1)})"
        word = self.random.choice(["and", "or"])
        return f"({self.condition(depth + 1)} {word} {self.condition(depth + 1)})"

    def block(self, indent, depth, in_loop):
        for _ in range(self.random.randint(1, 4)):
            self.statement(indent, depth, in_loop)

    def statement(self, indent, depth, in_loop):
        self.budget -= 1
        kind = self.random.random()
        if self.budget < 0 or depth > 3 or kind < 0.4:
            self.assignment(indent)
        elif kind < 0.6:
            self.emit(indent, f"if {self.condition()}:")
            self.block(indent + 1, depth + 1, in_loop)
            if self.random.random() < 0.3:
                self.emit(indent, f"elif {self.condition()}:")
                self.block(indent + 1, depth + 1, in_loop)
            self.maybe_else(indent, depth, in_loop, 0.5)
        elif kind < 0.75:
            counter = self.random.choice([*VARIABLES, self.new_name("w")])
            self.emit(indent, f"for {counter} in range({self.range_arguments()}):")
            self.block(indent + 1, depth + 1, True)
            self.maybe_else(indent, depth, in_loop, 0.3)
        elif kind < 0.85:
            # Counts its iterations, so that it ends.
            fuel = self.new_name("f")
            self.emit(indent, f"{fuel} = 0")
            self.emit(indent, f"while {fuel} < {self.random.randint(1, 4)} and {self.condition(2)}:")
            self.emit(indent + 1, f"{fuel} += 1")
            self.block(indent + 1, depth + 1, True)
            self.maybe_else(indent, depth, in_loop, 0.3)
        elif in_loop and kind < 0.95:
            self.emit(indent, f"if {self.condition(1)}:")
            self.emit(indent + 1, self.random.choice(["break", "continue"]))
        else:
            self.emit(indent, f"if {self.condition(1)} and {self.condition(2)}:")
            self.emit(indent + 1, "return")

    def maybe_else(self, indent, depth, in_loop, probability):
        if self.random.random() < probability:
            self.emit(indent, "else:")
            self.block(indent + 1, depth + 1, in_loop)

    def assignment(self, indent):
        kind = self.random.random()
        if kind < 0.5:
            self.emit(indent, f"{self.random.choice(VARIABLES)} = {self.expression()}")
        elif kind < 0.7:
            self.emit(indent, f"{self.random.choice(VARIABLES)} += {self.expression(2)} & 7")
        elif kind < 0.8:
            x, y = self.random.sample(VARIABLES, 2)
            self.emit(indent, f"{x}, {y} = {self.expression(1)}, {x}")
        else:
            operator = self.random.choice(["=", "+=", "^="])
            self.emit(indent, f"a[{self.expression(2)} & 3] {operator} {self.expression(1)} & 255")

    def range_arguments(self):
        small = self.random.randint
        return self.random.choice(
            [
                f"{small(1, 4)}",
                f"{self.expression(2)} & 3",
                f"{small(0, 3)}, {small(0, 6)}",
                f"{small(2, 5)}, {self.random.choice(['-1', '0'])}, -1",
                f"{self.expression(2)} & 3, {self.expression(2)} & 7, 2",
            ]
        )


def test_case(name, seed):
    """A kernel with its `run:` line; empty if its values grow too large."""
    body = "\n".join(Generator(seed).lines)
    names = {}
    exec(f"def {name}(a):\n{body}\n", names)
    numbers = random.Random(~seed)
    elements = [numbers.randint(0, 9) for _ in range(N_ELEMENTS)]
    results = list(elements)
    names[name](results)
    if max(map(abs, results)) >= 2**30:
        return ""
    header = f"\n\n# run: @{name}[1]({elements}) == {results}\n@loom.kernel\ndef {name}(a: loom.array(dtype=int)):\n"
    return header + body + "\n"


def main():
    folder, first, last = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(first, last):
        cases = (test_case(f"k{k}", index * KERNELS_PER_FILE + k) for k in range(KERNELS_PER_FILE))
        (folder / f"random_{index}.py").write_text("# test run\nimport polyloom as loom\n" + "".join(cases))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
