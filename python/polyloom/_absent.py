"""What of Warp's package there is not here, and why."""

from __future__ import annotations

import re

# Why a public name of Warp's has no counterpart: the first of these that it matches, whatever its case.
REASONS = [
    (
        "streams, events, graphs, memory pools and allocators of CUDA devices",
        r"cuda|stream|event|graph|capture|mempool|peer|allocat|memory|can_access|ipc_handle|lto_cache|^timing|"
        r"timing_?result|suggested_block_size|launch_tiled|determinis",
    ),
    ("geometry, volumes, textures", r"mesh|bvh|hashgrid|volume|texture|glbuffer|cubql"),
    ("tiles", r"^tile"),
    ("Omniverse Fabric", r"fabric"),
    ("Warp's wrappers for JAX; Polyloom's is `polyloom.jax.function`", r"jax."),
    ("arrays of Paddle, which DLPack passes on", r"paddle"),
    (
        "native code in kernels, and kernels built ahead of time",
        r"native|build|aot|address_of|get_cpu_kernel_cache_key",
    ),
    ("Warp's messages about itself", r"print_diagnostics"),
]


def reason_of(name: str) -> str:
    """Why there is no such name; nothing if that is not known."""
    return next((reason for reason, pattern in REASONS if re.search(pattern, name, re.IGNORECASE)), "")


def absent(name: str) -> AttributeError:
    """The error for a name that the package does not have."""
    message = f"module 'polyloom' has no attribute {name!r}"
    if name in ("jax", "torch"):
        return AttributeError(f"{message} yet: import polyloom.{name}", name=name)
    reason = "" if name.startswith("_") else reason_of(name)
    return AttributeError(f"{message}: Polyloom is without {reason}" if reason else message, name=name)
