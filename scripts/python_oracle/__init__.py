"""CPython as the oracle of kernels: random programs, stand-ins for what they use, and the comparison.

`generate` writes programs in what Python and kernels share; `rewrite` and `model` let CPython run them, with the
documented differences between the two modelled (docs/guide/kernels.md); `compare` runs both and says what differs.
"""
