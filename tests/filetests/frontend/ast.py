# test ast
# The typed AST: every constant has its type, every operation its overload, and metadata rides along.
import polyloom as loom


@loom.func
def half(x: float) -> float:
    return x / 2


@loom.kernel(kind="reduce", block_dim=(16, 8), float_mode="contract", check=True, hints={"unroll": 2}, max_registers=64)
def k(n: int, d: loom.array(dtype=loom.float64, ndim=2), a: loom.array(dtype=float)):
    i, j = loom.tid()
    d[i, j] **= 2
    x = half(1) if n > 0 and not a[i] else -a[-1]
    state = loom.rand_init(n)
    while loom.randf(state) < x <= 1:
        x += 1
    for m in range(loom.uint8(3)):
        a[m] = x ** 2 + float(m)
        if m == 2:
            break
    else:
        print("none", n)
    p = q = a[0] * 2.0
    a[0], a[1] = q, p
    assert loom.isfinite(p)
    return
