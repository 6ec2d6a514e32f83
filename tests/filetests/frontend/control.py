# test run
import polyloom as loom


# Collatz steps to 1; the values are OEIS A006577.
# run: @collatz[7]([0, 0, 0, 0, 0, 0, 0]) == [0, 1, 7, 2, 5, 8, 16]
@loom.kernel
def collatz(steps: loom.array(dtype=int)):
    i = loom.tid()
    n = i + 1
    count = 0
    while n != 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        count += 1
    steps[i] = count


# run: @signs[4]([-2.0, 0.0, 3.0, 5.0]) == [-1.0, 0.0, 1.0, 2.0]
@loom.kernel
def signs(a: loom.array(dtype=float)):
    i = loom.tid()
    x = a[i]
    if x < 0.0:
        a[i] = -1.0
    elif x == 0.0:
        a[i] = 0.0
    elif x < 4.0:
        a[i] = 1.0
    else:
        a[i] = 2.0


# `continue` skips 3, `break` stops at 6: 0 + 1 + 2 + 4 + 5, and the counter keeps its value.
# run: @jumps[1]([0, 0]) == [12, 6]
@loom.kernel
def jumps(a: loom.array(dtype=int)):
    total = 0
    for i in range(10):
        if i == 3:
            continue
        if i == 6:
            break
        total += i
    a[0] = total
    a[1] = i


# The `else` of a loop runs unless `break` left it.
# run: @search[3]([4, 5, 6], 5, [9, 9, 9]) == [4, 5, 6], [-1, 1, -1]
@loom.kernel
def search(a: loom.array(dtype=int), wanted: int, found: loom.array(dtype=int)):
    i = loom.tid()
    for j in range(len(a)):
        if a[j] == wanted and j == i:
            found[i] = j
            break
    else:
        found[i] = -1


# run: @while_else[3]([0, 0, 0]) == [100, 1, 2]
@loom.kernel
def while_else(a: loom.array(dtype=int)):
    i = loom.tid()
    n = 5
    while n > 0:
        if n == i and i > 0:
            break
        n -= 1
    else:
        n = 100
    a[i] = n


# Counting down, by a run-time step, and not at all.
# run: @ranges[1](3, [0, 0, 0, 0]) == [4321, 36, 0, 7]
# run: @ranges[1](-3, [0, 0, 0, 0]) == [4321, 0, 0, 7]
@loom.kernel
def ranges(step: int, a: loom.array(dtype=int)):
    digits = 0
    for i in range(4, 0, -1):
        digits = digits * 10 + i
    a[0] = digits
    for i in range(0, 9, step):
        a[1] = a[1] * 10 + i
    for i in range(3, 3):
        a[2] = 1
    last = 7
    for last in range(a[2]):
        pass
    a[3] = last


# The counter of an iteration can be changed; the next one starts from the loop's own count.
# run: @counter[1]([0, 0]) == [60, 40]
@loom.kernel
def counter(a: loom.array(dtype=int)):
    total = 0
    for i in range(5):
        i = i * 10
        if i == 30:
            continue
        total += i
    a[0] = total - 10
    a[1] = i


# A loop that runs at least once sets its variables, and so does one that only `break` leaves.
# run: @sets[1]([0, 0]) == [4, 16]
@loom.kernel
def sets(a: loom.array(dtype=int)):
    for i in range(3):
        square = i * i
    a[0] = square
    n = 1
    while True:
        n *= 2
        if n > 10:
            result = n
            break
    a[1] = result


# Nested loops, left at once by `return`.
# run: @nested[3]([0, 0, 0]) == [0, 13, 26]
@loom.kernel
def nested(a: loom.array(dtype=int)):
    k = loom.tid()
    for i in range(10):
        for j in range(10):
            if i + j == 3 * k and i == j + k:
                a[k] = i * 10 + j - 9 * k + k
                return
            if j > i:
                break


# run: @swap[1]([1, 2, 3]) == [3, 1, 2]
@loom.kernel
def swap(a: loom.array(dtype=int)):
    x, y, z = a[0], a[1], a[2]
    x, y, z = z, x, y
    a[0], a[1], a[2] = x, y, z
    p = q = a[0] * 2
    a[0] = p - q // 2


# Only the side that is needed is evaluated: the other would be outside the array.
# run: @lazy[4](2, [5, -5]) == [5, -5]
@loom.kernel
def lazy(n: int, a: loom.array(dtype=int)):
    i = loom.tid()
    if i < n and a[i] > 100:
        a[i] = 0
    if i >= n or a[i] > 100:
        a[0] = a[0]
    x = a[i] if i < n else 0
    if 0 <= i < n == 2:
        a[i] = x
