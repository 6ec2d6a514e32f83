# test run
# A later definition of the same name and parameter types replaces the earlier one; others are overloads.
import polyloom as loom

Value = float


@loom.func
def f(x: float):
    return 1.0


@loom.func
def f(x: int):
    return 2.0


@loom.func
def f(y: Value, /) -> float:
    return 3.0


# run: @latest[1]([0.0, 0.0]) == [3.0, 2.0]
@loom.kernel
def latest(a: loom.array(dtype=float)):
    a[0] = f(a[0])
    a[1] = f(7)
