# test run
# `:=` at module level binds a name like `=`.
import polyloom as loom

DOUBLE = 2 * (SIZE := 4)
(ALONE := SIZE + 1)

if (n := 10) > 5:
    pass


class Sizes:
    M = (N := 3) + 1


# run: @bound[1]([0, 0, 0, 0, 0, 0]) == [8, 4, 5, 10, 4, 3]
@loom.kernel
def bound(a: loom.array(dtype=int)):
    a[0] = DOUBLE
    a[1] = SIZE
    a[2] = ALONE
    a[3] = n
    a[4] = Sizes.M
    a[5] = Sizes.N
