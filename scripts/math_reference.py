"""Write the reference values of the mathematics library's float64 tests.

Every line of the output is an op, its operands and the correctly rounded result, as the bits of float64 in
hexadecimal. The values come from MPFR (through gmpy2) in 300 bits.

    python scripts/math_reference.py > crates/polyloom-ir/tests/math_f64.txt
"""

import math
import random
import struct

import gmpy2

gmpy2.get_context().precision = 300


def erfinv(x: gmpy2.mpfr) -> gmpy2.mpfr:
    if abs(x) == 1:
        return gmpy2.mpfr("inf") * x
    if not abs(x) < 1:
        return gmpy2.nan()
    if abs(x) < 1e-60:
        return x * gmpy2.sqrt(gmpy2.const_pi()) / 2
    # Winitzki's approximation, then Halley's steps on erfc(y) = 1 - |x|.
    complement = 1 - abs(x)
    logarithm = gmpy2.log(complement * (2 - complement))
    term = 2 / (gmpy2.const_pi() * 0.147) + logarithm / 2
    y = gmpy2.sqrt(abs(gmpy2.sqrt(term * term - logarithm / 0.147) - term))
    for _ in range(12):
        step = (complement - gmpy2.erfc(y)) * gmpy2.exp(y * y) * gmpy2.sqrt(gmpy2.const_pi()) / 2
        y -= step / (1 + y * step)
    return gmpy2.copy_sign(y, x)


def erfcinv(x: gmpy2.mpfr) -> gmpy2.mpfr:
    if x == 0 or x == 2:
        return gmpy2.mpfr("inf") * (1 - x)
    if not 0 < x < 2:
        return gmpy2.nan()
    if x > 1:
        return -erfcinv(2 - x)
    # Newton's steps on the logarithm of erfc, which is nearly a parabola.
    y = gmpy2.sqrt(abs(gmpy2.log(x)))
    for _ in range(60):
        step = gmpy2.log(gmpy2.erfc(y) / x) * gmpy2.erfc(y) * gmpy2.exp(y * y) * gmpy2.sqrt(gmpy2.const_pi()) / 2
        y += step
        if abs(step) <= abs(y) * 2.0**-120:
            break
    return y


ONE = {
    name: getattr(gmpy2, name)
    for name in (
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p cbrt erf erfc"
    ).split()
} | {"rsqrt": lambda x: 1 / gmpy2.sqrt(x), "erfinv": erfinv, "erfcinv": erfcinv}
TWO = {"atan2": gmpy2.atan2, "pow": lambda x, y: x**y, "hypot": gmpy2.hypot, "mod": gmpy2.fmod}
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 2.2250738585072014e-308, 1e300]
SPREAD = [0.5, -0.5, 2.0, 3.0, 1e-9, 0.1, 1.5, 10.0, 709.5, -745.0, 1e22, 6381956970095103.0 * 2.0**797]


def bits(value: float) -> str:
    return f"{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"


def main() -> None:
    rng = random.Random(20)

    def sample() -> float:
        kind = rng.randrange(3)
        if kind == 0:
            return rng.uniform(-1.2, 1.2)
        if kind == 1:
            return rng.uniform(-30, 30)
        return math.ldexp(rng.uniform(1, 2), rng.randrange(-60, 60)) * rng.choice((1, -1))

    for name, function in ONE.items():
        if name == "erfcinv":
            continue
        for x in SPECIAL + SPREAD + [sample() for _ in range(40)]:
            if name in ("acosh", "log", "log2", "log10", "rsqrt") and x < -1:
                x = -x
            print(name, bits(x), bits(float(function(gmpy2.mpfr(x)))))
    for name, function in TWO.items():
        pairs = [(x, y) for x in [*SPECIAL, 2.5, -3.0] for y in [*SPECIAL, 2.5, -3.0]]
        for x, y in pairs + [(sample(), sample()) for _ in range(60)]:
            print(name, bits(x), bits(y), bits(float(function(gmpy2.mpfr(x), gmpy2.mpfr(y)))))
    # Most of what the others are given is not in its domain.
    for x in (
        SPECIAL
        + [0.5, 1.5, 2.0, 1e-9]
        + [rng.uniform(0, 2) for _ in range(30)]
        + [10 ** rng.uniform(-300, 0) for _ in range(30)]
    ):
        print("erfcinv", bits(x), bits(float(erfcinv(gmpy2.mpfr(x)))))


if __name__ == "__main__":
    main()
