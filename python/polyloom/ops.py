"""Ops on tensors: NumPy arrays, `polyloom.array`s and PyTorch tensors.

A call runs one kernel, and raises as NumPy does: `ValueError` of shapes and axes, `TypeError` of types, `OverflowError`
of integers. Element types follow NumPy 2; Python numbers take the type of the tensors beside them. Results are of the
package of the arguments and, unless the op is a view, new memory. Functions under `polyloom.fuse` run several calls as
few kernels.

The functions come from the one table of ops, which their stub is generated from; `topk`, which has two results, is
made of two of them.

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
__all__ += ["topk"]
gather = _OPS["gather"]
topk_indices = _OPS["topk_indices"]


def topk(x, k, axis=-1, largest=True):
    """The `k` largest elements along an axis, or smallest, in order, and their indices.

    NaN is above all numbers, and -0.0 below 0.0. Of equal elements the one with the lower index comes first. A call is
    one of `topk_indices` and one of `gather`, which a fused function runs in the group of what is around them.

    Parameters
    ----------
    x : tensor
    k : int
    axis : int
    largest : bool

    Returns
    -------
    values, indices : pair of tensors
        Of the shape of `x` with `k` elements along `axis`; indices are int64.

    Raises
    ------
    ValueError
        If `axis` is none of `x`, or has fewer than `k` elements.

    Examples
    --------
    >>> import numpy as np
    >>> from polyloom import ops
    >>> values, indices = ops.topk(np.array([3.0, 1.0, 4.0, 1.0, 5.0], np.float32), 2)
    >>> values.tolist(), indices.tolist()
    ([5.0, 4.0], [4, 2])
    """
    indices = topk_indices(x, k, axis, largest)
    return gather(x, indices, axis), indices
