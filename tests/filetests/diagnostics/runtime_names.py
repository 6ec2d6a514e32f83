# test diagnostics
# Names of a file that only running it would tell.
import enum
import math

import polyloom as loom


class Color(enum.IntEnum):
    RED = 1


class Late:
    pass


Late.N = math.factorial(3)

SHORT = False and (skipped := 1)

if SHORT:
    pass
elif (other := 2) > 1:
    pass

count = 0
while (last := count) < 3:
    count += 1

SUM = sum([(item := i) for i in range(3)])


@loom.kernel
def k(a: loom.array(dtype=int)):
    a[0] = Color.RED
    a[1] = Late.N
    a[2] = skipped
    a[3] = other
    a[4] = last
    a[5] = item
    a[6] = Late.M
    a[7] = Late
