"""Fused functions against the functions as they are written: programs, ops in NumPy, and the comparison.

`standin` has the ops and groups that run them one by one; `programs` writes random programs and gives the cases of
capture what they use; `compare` runs a function both ways over equal arguments and says what differs.
"""
