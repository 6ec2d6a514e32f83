"""Generated kernels whose threads may meet at one element: tapes refuse them where a list of all accesses shows it."""

import random
from typing import NamedTuple

import numpy as np
import polyloom as loom
import pytest
from sources import define

N_KERNELS = 400
SIZE = 64
STORES = ("store", "constant")


class Access(NamedTuple):
    """What threads do with an array: its text, the condition around it, and the loop."""

    kind: str
    index: str
    value: str
    guard: str
    loop: str


class Case(NamedTuple):
    text: str
    accesses: list[Access]
    dim: tuple[int, ...]
    n: int

    def __str__(self) -> str:
        return f"dim {self.dim}, n {self.n}\n{self.text}"


def index(rng: random.Random, rank: int, in_loop: bool) -> str:
    """A sum of multiples, never negative."""
    coordinates = ["i", "j"][:rank]
    factors = [rng.choice([0, 1, 1, 1, 2, 3]) for _ in coordinates]
    terms = [f"{factor} * {name}" for factor, name in zip(factors, coordinates, strict=True) if factor]
    terms += ["n"] * (rng.random() < 0.2) + [str(rng.randrange(6))]
    if in_loop:
        terms += [rng.choice(["k", "2 * k", "3 * k"])] * (rng.random() < 0.8)
    text = " + ".join(terms)
    if rank == 1 and rng.random() < 0.15:
        text = rng.choice(
            ["i // 2", "i % 3", "i // (n + 1)", "i % (n + 1)", "(i + 1) // 3", "12 - i", "n + 12 - 2 * i"]
        )
    return text


def guard(rng: random.Random, rank: int) -> str:
    if rng.random() < 0.6:
        return ""
    name = "i" if rank == 1 else rng.choice("ij")
    return rng.choice(
        [f"{name} < {rng.randrange(5)}", f"{name} == {rng.randrange(4)}", f"{name} >= n", f"{name} < n + 2"]
    )


def access(rng: random.Random, rank: int) -> Access:
    loop = rng.choice(["", "", "range(3)", "range(n)", "range(1, 6, 2)"])
    kind = rng.choice(["store", "store", "constant", "add", "load"])
    own = "x[i]" if rank == 1 else "x[i, j]"
    value = {"store": f"{rng.randrange(2, 9)}.0 * {own}", "constant": "0.5", "add": own, "load": ""}[kind]
    return Access(kind, index(rng, rank, bool(loop)), value, guard(rng, rank), loop)


def generate(seed: int) -> Case:
    rng = random.Random(seed)
    rank = rng.choice([1, 1, 2])
    accesses = [access(rng, rank) for _ in range(rng.choice([1, 2, 2, 3]))]
    lines = []
    for each in accesses:
        line = {
            "load": f"s += y[{each.index}]",
            "add": f"loom.atomic_add(y, {each.index}, loom.float64({each.value}))",
        }.get(each.kind, f"y[{each.index}] = loom.float64({each.value})")
        indent = "    "
        for around in (each.guard and f"if {each.guard}:", each.loop and f"for k in {each.loop}:"):
            if around:
                lines.append(indent + around)
                indent += "    "
        lines.append(indent + line)
    coordinates, own = ("i", "i") if rank == 1 else ("i, j", "i, j")
    text = "\n".join(
        [
            "@loom.kernel",
            f"def generated(x: loom.array(dtype=loom.float64, ndim={rank}), y: loom.array(dtype=loom.float64),",
            f"        z: loom.array(dtype=loom.float64, ndim={rank}), n: int):",
            f"    {coordinates} = loom.tid()",
            "    s = loom.float64(0.0)",
            *lines,
            f"    z[{own}] = s * x[{own}]",
        ]
    )
    return Case(text, accesses, tuple(rng.randrange(1, 6) for _ in range(rank)), rng.randrange(4))


def elements(each: Access, names: dict[str, int]) -> set[int]:
    """What a thread comes to by an access."""
    if each.guard and not eval(each.guard, names):
        return set()
    counters = eval(each.loop, names) if each.loop else [0]
    return {eval(each.index, {**names, "k": k}) for k in counters}


def is_racing(case: Case) -> bool:
    threads = [dict(zip("ij", place, strict=False)) | {"n": case.n} for place in np.ndindex(*case.dim)]
    by_thread = [[elements(each, thread) for each in case.accesses] for thread in threads]
    for a, one in enumerate(by_thread):
        for b, other in enumerate(by_thread):
            for first, its in zip(case.accesses, one, strict=True):
                for second, those in zip(case.accesses, other, strict=True):
                    # Two constants are the same.
                    is_race = first.kind in STORES and not first.kind == second.kind == "constant"
                    if a != b and is_race and its & those:
                        return True
    return False


def is_known(case: Case) -> bool:
    """Whether all that decides about it is what the compiler looks at: in pairs, sums of one coordinate."""
    several = [each for each in case.accesses if "i" in each.index and "j" in each.index]
    quotients = [each for each in case.accesses if "//" in each.index or "%" in each.index]
    return not several and (not quotients or len(case.accesses) == 1)


@pytest.mark.parametrize("first", range(0, N_KERNELS, 100))
def test_generated_kernels_are_refused_where_they_race(first):
    found = {True: 0, False: 0}
    for seed in range(first, first + 100):
        case = generate(seed)
        names = define(case.text)
        x, y = np.ones(case.dim), np.zeros(SIZE)
        try:
            with loom.Tape():
                loom.launch(names["generated"], case.dim, [x, y, np.zeros(case.dim), case.n])
            is_refused = False
        except loom.CompileError as error:
            assert [each.code for each in error.diagnostics][0] == "PL0701", f"{seed}: {case}"
            # What is read and updated atomically is refused whatever the launch.
            if "read and updated atomically" in str(error):
                continue
            is_refused = True
        expected = is_racing(case)
        found[expected] += 1
        if is_refused:
            assert expected, f"{seed}: refused, and does not race: {case}"
        elif is_known(case):
            assert not expected, f"{seed}: races, and is not refused: {case}"
    assert min(found.values()) > 15
