"""The discrete Fourier transform by Stockham's stages."""

import numpy as np
import polyloom as loom


@loom.kernel
def stage(
    x: loom.array(dtype=float),
    y: loom.array(dtype=float),
    u: loom.array(dtype=float),
    v: loom.array(dtype=float),
    half: int,
    stride: int,
):
    p, q = loom.tid()
    angle = -2.0 * loom.pi * loom.float32(p) / loom.float32(2 * half)
    c = loom.cos(angle)
    d = loom.sin(angle)
    ar = x[q + stride * p]
    ai = y[q + stride * p]
    br = x[q + stride * (p + half)]
    bi = y[q + stride * (p + half)]
    u[q + stride * (2 * p)] = ar + br
    v[q + stride * (2 * p)] = ai + bi
    u[q + stride * (2 * p + 1)] = (ar - br) * c - (ai - bi) * d
    v[q + stride * (2 * p + 1)] = (ar - br) * d + (ai - bi) * c


def arguments(random):
    return random.random(16, dtype=np.float32), random.random(16, dtype=np.float32), 4


def twin(re, im, stages):
    x, y, u, v = re.copy(), im.copy(), np.zeros_like(re), np.zeros_like(im)
    for s in range(stages):
        half, stride = len(re) >> (s + 1), 1 << s
        loom.launch(stage, (half, stride), [x, y, u, v, half, stride])
        x[:], y[:] = u, v
    return x, y, u, v


def expected(re, im, stages):
    transformed = np.fft.fft(re.astype(np.float64) + 1j * im)
    return transformed.real, transformed.imag, None, None
