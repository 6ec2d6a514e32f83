# test run
# An overload that does not fit reports nothing.
import polyloom as loom


@loom.func
def f(x: loom.int8):
    return 1


@loom.func
def f(x: int):
    return 2


@loom.func
def f(x: int, y: int = UNKNOWN):
    return 3


# run: @chosen[1]([0, 0, 0]) == [2, 2, 3]
@loom.kernel
def chosen(a: loom.array(dtype=int)):
    a[0] = f(300)
    a[1] = f(7)
    a[2] = f(7, 7)
