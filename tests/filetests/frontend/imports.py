# test run
# An import inside a function is the function's own.
import polyloom as loom


def plots():
    import numpy as loom

    return loom.zeros(3)


class Plots:
    import numpy as loom


def make():
    import math
    import polyloom as inner

    # run: @local[1]([0.0]) == [1.5707964]
    @inner.kernel
    def local(a: inner.array(dtype=float)):
        a[0] = math.pi / 2.0

    return local


# run: @outer[1]([0.0]) == [1.0]
@loom.kernel
def outer(a: loom.array(dtype=float)):
    a[0] = loom.cos(0.0)
