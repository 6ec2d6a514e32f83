# test cuda
# A function that is not to be inlined is one of its own.
import polyloom as loom


@loom.func(inline=False)
def collatz(n: int) -> int:
    steps = int(0)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@loom.kernel
def steps(out: loom.array(dtype=int), more: loom.array(dtype=int)):
    i = loom.tid()
    out[i] = collatz(i + 1)
    more[i] = collatz(2 * i + 7)
