"""Warp's own installed tests and examples as an outside corpus of kernels.

`recorder` runs one of Warp's modules under Warp and keeps its kernels and their launches; `scope` says which are core
kernels; `translate` gives Polyloom the same functions with Polyloom's names for Warp's; `replay` compiles and launches
them and compares; `report` counts. Nothing of Warp's text is kept.
"""
