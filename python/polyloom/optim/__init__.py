"""Stands for Warp's module of this name, which Polyloom does not have yet: its members say so where they are used."""

from polyloom._absent import absent_module
from polyloom.optim import linear as linear

__getattr__ = absent_module(__name__, "optimisers for now; the examples write Adam in a few lines")
