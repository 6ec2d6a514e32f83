"""Optimisers: stochastic gradient descent with momentum, Adam, and AdamW, for functions of tensors and for tapes.

With gradients of `loom.grad`, `update` takes parameters and gradients in any structure and gives new parameters; its
step is one kernel over all of them but large ones, which have one each. With tapes, `step` changes a list of arrays in
place, by their `grad` or by a list of gradients.

>>> import numpy as np, polyloom as loom
>>> from polyloom import ops
>>> def loss(p, x, y):
...     return ops.mean(ops.square(ops.matmul(x, p["w"]) + p["b"] - y))
>>> params = {"w": np.zeros(2, np.float32), "b": np.zeros(1, np.float32)}
>>> x = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], np.float32)
>>> y = np.array([1.0, 2.0, 3.0], np.float32)
>>> adam = loom.optim.Adam(lr=0.1)
>>> for _ in range(300):
...     params = adam.update(params, loom.grad(loss)(params, x, y))
>>> params["w"].round(2)
array([2., 1.], dtype=float32)
"""

from polyloom._absent import absent_module
from polyloom.optim import linear as linear
from polyloom.optim._optimisers import SGD, Adam, AdamW, Optimiser

__all__ = ["SGD", "Adam", "AdamW", "Optimiser", "linear"]

__getattr__ = absent_module(__name__, "optimisers other than SGD, Adam and AdamW")
