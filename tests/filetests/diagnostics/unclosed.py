# test diagnostics
# What follows a bracket that is never closed is misread: it is not reported.
import polyloom as loom


@loom.kernel
def k(a: loom.array(dtype=float)):
    i = loom.tid()
    a[i] = 1.0 and and 2.0 or or 3.0
    a[i] = loom.sin(a[i]
    a[i] = 3.0


@loom.kernel
def after(a: loom.array(dtype=float)):
    a[0] = 1.0
