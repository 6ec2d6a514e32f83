# test diagnostics
import numpy as np
import polyloom as loom


@loom.kernel
def k(
    a: loom.array(dtype=float32),
    b: loom.array(dtype=flaot),
    c: loom.array(dtype=loom.float23),
    d: np.ndarray,
    e: vec3,
    f: loom.float,
    g: array(dtype=float),
    h: loom.arry(dtype=float),
    i: np.float23,
    j: ndarray,
):
    pass
