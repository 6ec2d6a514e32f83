"""Fused functions against the functions as they are written: programs, ops in NumPy, and the comparison.

`programs` writes random programs and gives the cases of capture what they use; `texts` loads them; `compare` runs a
function both ways over equal arguments and says what differs.
"""
