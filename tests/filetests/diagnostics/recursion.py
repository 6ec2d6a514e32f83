# test diagnostics
import polyloom as loom


@loom.func
def direct(n: int) -> int:
    return direct(n - 1)


@loom.func
def even(n: int) -> int:
    return 1 if n == 0 else odd(n - 1)


@loom.func
def odd(n: int) -> int:
    return 0 if n == 0 else even(n - 1)


@loom.kernel
def k(a: loom.array(dtype=int)):
    a[0] = direct(3)
    a[1] = even(3)
