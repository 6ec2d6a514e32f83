"""Ops on tensors: NumPy arrays, `polyloom.array`s and PyTorch tensors.

A call runs one kernel, and raises as NumPy does: `ValueError` of shapes and axes, `TypeError` of types, `OverflowError`
of integers. Element types follow NumPy 2; Python numbers take the type of the tensors beside them. Results are of the
package of the arguments and, unless the op is a view, new memory. Functions under `polyloom.fuse` run several calls as
few kernels.

The functions come from the one table of ops, which their stub is generated from.

Examples
--------
>>> import numpy as np
>>> from polyloom import ops
>>> a = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)
>>> ops.relu(a)
array([[1., 0.],
       [3., 4.]], dtype=float32)
>>> ops.sum(ops.multiply(a, a), axis=1)
array([ 5., 25.], dtype=float32)
"""

from polyloom._native import tensor_ops as _tensor_ops

__all__ = []

_OPS = _tensor_ops()
globals().update(_OPS)
__all__ += list(_OPS)
