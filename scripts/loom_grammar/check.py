"""Parses all examples and pages of ``.loom`` by the parser of the tree-sitter grammar: none has an error node."""

import ctypes
import re
import sys
from pathlib import Path

import tree_sitter

ROOT = Path(__file__).parents[2]


def language(library):
    """The language that a compiled parser is."""
    function = ctypes.CDLL(library).tree_sitter_loom
    function.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return tree_sitter.Language(capsule(function(), b"tree_sitter.Language", None))


def errors(node):
    if node.type == "ERROR" or node.is_missing:
        yield node
    for child in node.children:
        yield from errors(child)


def main():
    of_loom = language(sys.argv[1])
    parser = tree_sitter.Parser(of_loom)
    texts = [(str(path), path.read_text()) for path in sorted((ROOT / "examples" / "loom").rglob("*.loom"))]
    for page in sorted((ROOT / "docs" / "loom").glob("*.md")):
        blocks = re.findall(r"^```loom\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        texts += [(str(page), block) for block in blocks]
    n_wrong = 0
    for name, text in texts:
        for node in errors(parser.parse(text.encode()).root_node):
            n_wrong += 1
            print(f"{name}, line {node.start_point.row + 1}: {node.text.decode()!r}")
    tree_sitter.Query(of_loom, (ROOT / "editors" / "tree-sitter-loom" / "queries" / "highlights.scm").read_text())
    print(f"{len(texts)} texts, {n_wrong} errors")
    return n_wrong != 0 or len(texts) < 60


if __name__ == "__main__":
    sys.exit(main())
