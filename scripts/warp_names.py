"""Writes docs/warp.md: what of Warp's public names Polyloom has, from a look at both installed packages.

usage: python scripts/warp_names.py [docs/warp.md]
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import polyloom
import warp
from polyloom._absent import REASONS, Absent, reason_of
from warp._src.context import builtin_functions

# Groups of builtins that Polyloom leaves to Warp.
OUT_OF_SCOPE = {"Tile Primitives", "Geometry", "Volumes", "Textures"}
# Builtins that Warp's code generator calls and programs do not.
INTERNAL = {
    "add_inplace",
    "address",
    "array_store",
    "assign_copy",
    "assign_inplace",
    "bit_and_inplace",
    "bit_or_inplace",
    "bit_xor_inplace",
    "extract",
    "index",
    "indexref",
    "iter_next",
    "load",
    "slice",
    "store",
    "sub_inplace",
    "transform_add_inplace",
    "transform_sub_inplace",
    "tuple",
    "view",
}
# Python's own names, which kernels use as they are.
PYTHON = {"float", "int", "len", "print", "range", "reversed"}
# Where the same program gives another result, or another error, on purpose.
DIFFERENCES = {
    "block_dim": "1 on the CPU in kernels that use nothing else of blocks; Warp has blocks on the CPU behind a setting",
    "ref": "a call that changes an array element or a component stands on a line of its own, or is what is assigned",
    "indexedarray": "a struct of the array and the indices; other attributes than Warp's",
    "launch": "on `cpu`, `sim:0` and `cuda:0`; wrong arguments are reported by name",
    "func": "one named `add` or `sub` does not change what `+=` and `-=` of array elements mean",
    "get_device": "a device is the string of its name",
    "map": "a Python number takes the type of the arrays, where they have one of its kind",
    "ScopedTimer": "NVTX and CUDA activities are not there; the time is",
    "set_module_options": "options are kept and change nothing: `config` and the arguments of `kernel` do",
    "inverse": "zeros only where the determinant is 0; Warp's 4 × 4 inverse gives zeros for determinants near 0 too",
    "determinant": "of 4 × 4 matrices: other order of operations, so other last bits",
    "sin": "functions of Polyloom's own, within 1 ulp; Warp takes the C library's (so for all of this group)",
    "svd2": "any matrix; Warp's factors do not give back a multiple of a rotation, nor small singular values",
    "svd3": "to rounding, and small singular values to all their digits; Warp's are a few 10⁻⁴ off at times",
    "int8": "floats cast to narrow and unsigned integers saturate (so for all of these); Warp's wrap or are undefined",
    "float": "`float(0xFFFFFFFF)` is 4294967296.0, the number as it is written; Warp's literal is an `int32` of -1",
    "float16": "`//` divides in float32 and rounds the floor once; Warp rounds the quotient first",
    "copy": "between arrays of different element types converts; Warp copies bytes",
    "transform": "`t.p[1] = x`, `t.p.x = x` change the variable `t`; Warp changes a copy, but for arrays",
    "print": "a vector or matrix prints as in Python, `[[1.0, 2.5], [3.0, 4.0]]`; Warp prints bare numbers by row",
    "mat33": "`m[i].x = y` changes the variable `m`, matrices in arrays have slices assigned; Warp loses or refuses it",
    "zeros": "in a kernel: slices of elements that are vectors, `a[i][1:] = v`, are there too",
    "struct": "a default of a field is ignored as in Warp, with a warning; a base class is an error in both",
    "expect_near": "also prints where a value is NaN",
    "pnoise": "repeats at negative coordinates too",
    "quat_between_vectors": "of opposite vectors a half turn; Warp's is no rotation",
    "quat_to_rpy": "gives the rotation back where the pitch is a right angle too",
    "select": "still there, though Warp removed it: `select(cond, value_if_false, value_if_true)`",
    "vec3": "prints as `vec3`, where Warp prints `vec3f`; `vec3f` and `vector(3, float)` are the same object",
}


def names_of(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words)) or "none"


def is_known(name: str) -> bool:
    return name in PYTHON or not isinstance(getattr(polyloom, name, Absent("", "")), Absent)


def report() -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for name, function in builtin_functions.items():
        if name not in INTERNAL:
            groups[function.group].append(name)
    lines = [
        "# Programs written for Warp",
        "",
        "A kernel written for NVIDIA Warp's core language runs on Polyloom with its import changed to",
        "`import polyloom as wp`. `make warp-names` writes this page from a look at the two packages,",
        f"here with Warp {warp.__version__}.",
        "",
        "## Builtins",
        "",
        "Names of one group; a name counts as known if Polyloom has it, whatever overloads it lacks.",
        "",
        "| group | known | of | not yet |",
        "|---|---:|---:|---|",
    ]
    n_known = n_all = 0
    for group, names in sorted(groups.items()):
        if group in OUT_OF_SCOPE:
            continue
        missing = [name for name in names if not is_known(name)]
        n_known, n_all = n_known + len(names) - len(missing), n_all + len(names)
        lines.append(f"| {group} | {len(names) - len(missing)} | {len(names)} | {names_of(missing)} |")
    lines += [
        f"| together | {n_known} | {n_all} | |",
        "",
        f"Out of scope: {', '.join(sorted(OUT_OF_SCOPE)).lower()}.",
        "",
        "## The rest of the package",
        "",
    ]
    host = [name for name in dir(warp) if not name.startswith("_") and name not in builtin_functions]
    known = [name for name in host if is_known(name)]
    missing = [name for name in host if not is_known(name)]
    reasons: dict[str, list[str]] = defaultdict(list)
    for name in missing:
        reasons[reason_of(name)].append(name)
    lines += [
        f"Known, {len(known)} of {len(host)}: {names_of(known)}.",
        "",
        f"Not there yet: {names_of(reasons.pop('', []))}.",
        "",
        "| out of scope | names |",
        "|---|---|",
        *(f"| {reason} | {names_of(reasons[reason])} |" for reason, _ in REASONS if reason in reasons),
        "",
        "## Different on purpose",
        "",
        "| name | difference |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in sorted(DIFFERENCES.items()) if is_known(name)),
        "",
    ]
    return "\n".join(lines)


# What other targets write stands between such lines.
SECTIONS = {
    "corpus": ("<!-- corpus: written by make warp-corpus -->", "<!-- end of corpus -->"),
    "tests": ("<!-- tests: written by make warp-tests -->", "<!-- end of tests -->"),
    "packages": ("<!-- packages: written by scripts/warp_packages.py -->", "<!-- end of packages -->"),
}


def with_section(page: str, name: str, section: str) -> str:
    """The page with this section, in the place of the one of that name it may have."""
    begin, end = SECTIONS[name]
    rest, after = page, ""
    if begin in page:
        rest, _, tail = page.partition(begin)
        after = tail.partition(end)[2].strip("\n")
    made = f"{rest.rstrip()}\n\n{begin}\n{section.strip()}\n{end}\n"
    return f"{made}\n{after}\n" if after else made


def section_of(page: str, name: str) -> str:
    """The section of this name that a page has."""
    begin, end = SECTIONS[name]
    return page.partition(begin)[2].partition(end)[0]


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "docs" / "warp.md"
    before, page = path.read_text() if path.exists() else "", report()
    for name in SECTIONS:
        if section := section_of(before, name):
            page = with_section(page, name, section)
    path.write_text(page)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
