"""A Triton kernel with a planted race: programs add to one sum without an atomic."""

import numpy as np
import triton
import triton.language as tl
from device_array import DeviceArray, start, synchronize


@triton.jit
def racy_sum(x_ptr, total_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + at), axis=0)
    total = tl.load(total_ptr)
    tl.store(total_ptr, total + part)  # the race: tl.atomic_add(total_ptr, part) has none


start()
x = DeviceArray.of(np.ones(512, np.float32))
total = DeviceArray.of(np.zeros(1, np.float32))
racy_sum[(4,)](x, total, BLOCK=128)
synchronize()
