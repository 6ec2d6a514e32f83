"""Counts the files of each crate that import each other in a circle.

A file stands for the Rust module it holds. It imports another one if a `use` or a path in it names something that the
other defines; what a module only passes on (`pub use`) counts for where it is defined, and method calls do not count.
Tests within a file do not count either.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
"""A module's path within its crate; the root is empty."""

USE = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")

MOST_FILES = 4
"""As many files may form a circle: a type, its parts and what builds them."""

KNOWN: dict[str, list[int]] = {}
"""Holds, by crate, the sizes of larger circles that are still there. They may only become fewer and smaller."""

ROOT = Path(__file__).resolve().parent.parent


def modules_of(folder: Path) -> dict[Module, str]:
    """The modules below a crate's `src`, each with its text, without comments and tests."""
    modules: dict[Module, str] = {}
    for file in sorted(folder.rglob("*.rs")):
        path = file.relative_to(folder).with_suffix("").parts
        text = re.sub(r"//.*", "", file.read_text())
        tests = re.search(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)
        modules[path[:-1] if path[-1] in ("mod", "lib", "main") else path] = text[: tests.start()] if tests else text
    return modules


def paths_of(tree: str, prefix: Module = ()) -> Iterator[Module]:
    """The paths that a `use` names, its braces resolved."""
    depth = start = 0
    for end, char in enumerate(tree + ","):
        depth += (char == "{") - (char == "}")
        if char != "," or depth:
            continue
        head, brace, rest = tree[start:end].strip().partition("{")
        start = end + 1
        parts = tuple(part.strip() for part in head.split(" as ")[0].split("::") if part.strip())
        if brace:
            yield from paths_of(rest[: rest.rindex("}")], prefix + parts)
        elif parts:
            yield prefix + parts


class CrateImports:
    """The imports among the modules of a crate."""

    def __init__(self, folder: Path) -> None:
        self.modules = modules_of(folder)
        self.passed_on: dict[Module, dict[str, Module]] = {}
        named: dict[Module, list[Module]] = {}
        for module, text in self.modules.items():
            uses = USE.findall(text)
            named[module] = [tuple(path.split("::")) for path in PATH.findall(USE.sub("", text))]
            for is_passed_on, tree in uses:
                for path in paths_of(tree):
                    if is_passed_on:
                        self.passed_on.setdefault(module, {})[path[-1]] = path
                    else:
                        named[module].append(path)
        self.edges = {
            module: {found for path in paths if (found := self.defining(module, path)) not in (None, module)}
            for module, paths in named.items()
        }

    def defining(self, module: Module, path: Module) -> Module | None:
        """The module that defines what a path names in a module, or `None` if that is outside of the crate."""
        at: Module
        if path[0] == "crate":
            at, path = (), path[1:]
        elif path[0] in ("self", "super"):
            at = module
            while path and path[0] in ("self", "super"):
                at, path = (at[:-1] if path[0] == "super" else at), path[1:]
        elif (*module, path[0]) in self.modules:
            at = module
        else:
            return None
        while path and (*at, path[0]) in self.modules:
            at, path = (*at, path[0]), path[1:]
        further = self.passed_on.get(at, {}).get(path[0]) if path else None
        if further is not None and further != path:
            return self.defining(at, further + path[1:]) or at
        return at

    def circles(self) -> list[list[Module]]:
        """The strongly connected components of more than one module, the largest first."""
        reached = {module: self.reachable(module) for module in self.edges}
        found = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in self.edges}
        return sorted((list(circle) for circle in found if len(circle) > 1), key=len, reverse=True)

    def reachable(self, module: Module) -> set[Module]:
        """All that a module imports, directly or not."""
        found: set[Module] = set()
        waiting = [module]
        while waiting:
            new = self.edges[waiting.pop()] - found
            found |= new
            waiting.extend(new)
        return found


def main() -> int:
    """Prints the circles of more than `MOST_FILES` files and tells whether they are those that are known."""
    as_known = True
    for folder in sorted((ROOT / "crates").iterdir()):
        if not (folder / "src").is_dir():
            continue
        imports = CrateImports(folder / "src")
        circles = [circle for circle in imports.circles() if len(circle) > MOST_FILES]
        sizes = [len(circle) for circle in circles]
        as_known &= sizes == KNOWN.get(folder.name, [])
        for circle in circles:
            print(f"{folder.name}: {len(circle)} files import each other in a circle")
            for module in circle if sizes != KNOWN.get(folder.name, []) else []:
                names = sorted("::".join(other) or "(root)" for other in imports.edges[module] & set(circle))
                print(f"    {'::'.join(module) or '(root)'} imports {', '.join(names)}")
    if not as_known:
        print(f"at most {MOST_FILES} may, but for those that {Path(__file__).name} lists as known")
    return 0 if as_known else 1


if __name__ == "__main__":
    sys.exit(main())
