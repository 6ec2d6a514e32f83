"""Writes NumPy's promotion of element types, which the tests of polyloom-graph compare with.

Run with NumPy 2: python scripts/promotion_table.py > crates/polyloom-graph/tests/main/promotion.txt
"""

import numpy as np

NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def result_type(*operands):
    """Return the name of the type that operands are promoted to, by adding arrays and Python numbers."""
    return np.result_type(*operands).name


def main():
    for a in NAMES:
        for b in NAMES:
            print(a, b, result_type(np.dtype(a), np.dtype(b)))
    for a in NAMES:
        print(a, "int", result_type(np.dtype(a), 1))
        print(a, "float", result_type(np.dtype(a), 1.0))
        ones = np.ones(1, a)
        print(a, "sin", np.sin(ones).dtype.name)
        print(a, "sum", np.sum(ones).dtype.name)
        print(a, "divide", np.divide(ones, ones).dtype.name)


if __name__ == "__main__":
    main()
