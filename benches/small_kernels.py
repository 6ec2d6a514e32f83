"""Small kernels whose compile time the benchmark measures, one after another. `wp` is the peer's package."""


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def stencil(a: wp.array(dtype=float, ndim=2), b: wp.array(dtype=float, ndim=2)):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < a.shape[0] - 1 and j < a.shape[1] - 1:
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@wp.kernel
def logistic(x: wp.array(dtype=float), y: wp.array(dtype=float), k: float):
    i = wp.tid()
    y[i] = 1.0 / (1.0 + wp.exp(-k * x[i]))


@wp.kernel
def polynomial(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _n in range(8):
        s = s * x[i] + 0.5
    y[i] = s


@wp.kernel
def integrate(p: wp.array(dtype=float), v: wp.array(dtype=float), dt: float, g: float):
    i = wp.tid()
    w = v[i] - g * dt
    q = p[i] + w * dt
    if q < 0.0:
        q = -q
        w = -0.5 * w
    p[i] = q
    v[i] = w


@wp.kernel
def histogram(x: wp.array(dtype=float), bins: wp.array(dtype=int), low: float, width: float):
    i = wp.tid()
    b = int(wp.floor((x[i] - low) / width))
    if b >= 0 and b < bins.shape[0]:
        wp.atomic_add(bins, b, 1)


@wp.kernel
def collatz(x: wp.array(dtype=int), steps: wp.array(dtype=int)):
    i = wp.tid()
    n = int(x[i])
    count = int(0)
    while n > 1:
        if n % 2 == 0:
            n = n / 2
        else:
            n = 3 * n + 1
        count += 1
    steps[i] = count


@wp.kernel
def row_sum(a: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for j in range(a.shape[1]):
        total += a[i, j]
    out[i] = total
