"""Warp's own unit tests with the import swapped: which there are, which are in scope, and how each ends."""
