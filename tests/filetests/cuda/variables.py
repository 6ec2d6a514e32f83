# test cuda
# A variable of the source is one variable of the text where its values allow it.
import polyloom as loom

@loom.func
def relu(x: float) -> float:
    if x > 0.0:
        return x
    return 0.0


@loom.kernel
def nbody(pos: loom.array(dtype=loom.vec3), vel: loom.array(dtype=loom.vec3), n: int, dt: float):
    i = loom.tid()
    p = pos[i]
    acc = loom.vec3(0.0, 0.0, 0.0)
    for j in range(n):
        d = pos[j] - p
        r2 = loom.dot(d, d) + 0.01
        inv = 1.0 / loom.sqrt(r2)
        acc = acc + d * (inv * inv * inv)
        if r2 > 100.0:
            break
    vel[i] = vel[i] + acc * dt
    k = 0
    while k < 10 and relu(acc[0]) > 0.5:
        k += 1
        acc[1] = acc[1] * loom.sin(0.5)
    if k > 3:
        return
    x = 1.0
    if i % 2 == 0:
        x = x + 2.0
        y = x
    else:
        y = 3.0
    vel[i][0] = y + x
    loom.atomic_add(vel, i, acc)
