"""Stands for Warp's module of this name, which Polyloom does not have: its members say so where they are used."""

from polyloom._absent import absent_module

__getattr__ = absent_module(__name__, "finite elements")
