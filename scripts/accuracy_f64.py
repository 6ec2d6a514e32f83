"""Compare float64 results of the mathematics library with MPFR.

Reads the lines `FUNCTION INPUT RESULT` (bits in hexadecimal) that the `accuracy` example writes with `--f64`, prints
each function's greatest error, and fails if one is above 1.5 units in the last place.

    python scripts/accuracy_f64.py FILE
"""

import math
import struct
import sys

import gmpy2
from math_reference import ONE

ONE = ONE | {"round": gmpy2.round_away}
LIMIT = 1.5


def value(text: str) -> float:
    return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]


def error_in_ulps(got: float, want: gmpy2.mpfr) -> float:
    rounded = float(want)
    if math.isnan(got) or math.isnan(rounded):
        return 0.0 if math.isnan(got) and math.isnan(rounded) else math.inf
    if math.copysign(1, got) != math.copysign(1, rounded):
        return math.inf
    if math.isinf(got) or math.isinf(rounded) or rounded == 0:
        return 0.0 if got == rounded else math.inf
    return float(abs(gmpy2.mpfr(got) - want) / math.ulp(rounded))


def main() -> int:
    worst: dict[str, tuple[float, float]] = {}
    for line in open(sys.argv[1]):
        name, x_bits, y_bits = line.split()
        x = value(x_bits)
        error = error_in_ulps(value(y_bits), ONE[name](gmpy2.mpfr(x)))
        if error > worst.get(name, (-1.0, 0.0))[0]:
            worst[name] = (error, x)
    print("f64, samples, against MPFR\n\n| function | greatest error (ulp) | at |\n|---|---:|---:|")
    for name, (error, x) in worst.items():
        print(f"| `{name}` | {error:.4f} | {x!r} |")
    return int(any(error > LIMIT for error, _ in worst.values()))


if __name__ == "__main__":
    sys.exit(main())
