"""A function of tensors for the library of this example: `polyloom build --fuse layer` makes one C function of it."""

import polyloom as loom
from polyloom import ops


@loom.fuse
def layer(x, scale, shift, weight, bias):
    """A layer of a network: rows are normalised, multiplied by weights, and bent."""
    return ops.gelu(ops.linear(ops.layer_norm(x, scale, shift), weight, bias))
