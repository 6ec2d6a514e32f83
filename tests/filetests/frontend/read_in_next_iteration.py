# test run
# A variable that only a branch or the bounds of an inner loop read is still handed to the next iteration.
import polyloom as loom


# run: @ranks[1]([5, -1, 7, 9], [0, 0, 0, 0]) == _, [1, 0, 2, 3]
@loom.kernel
def ranks(a: loom.array(dtype=int), b: loom.array(dtype=int)):
    count = 0
    for i in range(len(a)):
        if a[i] > 0:
            count += 1
            b[i] = count


# The inner loop starts where the last one stopped: 0 1 2, 2 3 4, 4 5 6.
# run: @overlapping[1]([0, 0, 0, 0, 0, 0, 0]) == [1, 1, 2, 1, 2, 1, 1]
@loom.kernel
def overlapping(a: loom.array(dtype=int)):
    j = 0
    for i in range(3):
        for j in range(j, j + 3):
            a[j] += 1


# run: @nested[1]([0, 0, 0]) == [0, 1, 3]
@loom.kernel
def nested(a: loom.array(dtype=int)):
    total = 0
    for i in range(3):
        if i >= 0:
            if i < 3:
                total += i
                a[i] = total


# run: @inner_else[1]([0, 0, 0]) == [1, 2, 3]
@loom.kernel
def inner_else(a: loom.array(dtype=int)):
    n = 0
    for i in range(3):
        for j in range(2):
            if j == 5:
                break
        else:
            n += 1
            a[i] = n
