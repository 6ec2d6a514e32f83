# test diagnostics
import polyloom as loom


@loom.func
def missing(x: float):
    if x > 0.0:
        return x


@loom.func
def number(x: float):
    if x > 0.0:
        return x, 1
    return x


@loom.func
def annotated(x: float) -> int:
    return x


@loom.func
def nothing(x: float) -> None:
    return x


@loom.func
def array(x: loom.array(dtype=float)):
    return x


@loom.func
def fine(x: float):
    if x > 0.0:
        return 1
    return x


@loom.kernel
def k(a: loom.array(dtype=float)) -> float:
    if a[0] > 0.0:
        return a[0]
    a[1] = fine(a[0]) + nothing(a[0])
