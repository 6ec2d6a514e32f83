# test run
# Attributes of classes are constants, functions and types that kernels can name.
import math

import polyloom as loom

N = 100


class Sizes:
    import numpy as np

    N: int = 3
    M = N + 1
    HALF = np.float32(0.5)
    TURN = 2.0 * math.pi

    class Inner:
        N = 7
        Value = float

    @loom.func
    def twice(x: float):
        # Names of the class are not seen here.
        return 2.0 * x + float(N)


class More(Sizes):
    M = 50


class Late(object):
    pass


Alias = Sizes.Inner
Late.N = N + 1
TOTAL = Sizes.N + More.N


# run: @attributes[1]([0, 0, 0, 0, 0, 0]) == [3, 4, 50, 7, 101, 6]
@loom.kernel
def attributes(a: loom.array(dtype=int)):
    a[0] = Sizes.N
    a[1] = Sizes.M
    a[2] = More.M
    a[3] = Alias.N
    a[4] = Late.N
    a[5] = TOTAL


# run: @others[1]([0.0, 1.0, 0.0]) == [0.5, 102.0, 6.2831855]
@loom.kernel
def others(a: loom.array(dtype=Sizes.Inner.Value)):
    a[0] = Sizes.HALF
    a[1] = More.twice(a[1])
    a[2] = More.TURN


def make():
    class Local:
        N = 11

    # run: @local[1]([0]) == [11]
    @loom.kernel
    def local(a: loom.array(dtype=int)):
        a[0] = Local.N

    return local
