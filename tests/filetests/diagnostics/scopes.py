# test diagnostics
import polyloom as loom

with open("size.txt") as file:
    pass

try:
    pass
except OSError as error:
    pass


def plots():
    import numpy as np


@loom.kernel
def k(a: loom.array(dtype=float)):
    a[0] = file
    a[1] = np.pi
    a[2] = error
