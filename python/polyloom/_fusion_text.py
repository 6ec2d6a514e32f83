"""Finds a function in the text of its file, and places of the text in its tree."""

from __future__ import annotations

import ast
from types import CodeType

Position = tuple[int, int, int, int]

# The attribute of a fused function that has what belongs to it.
FUSION = "__polyloom_fusion__"


class TextIndex:
    """Positions in a text as CPython's trees have them, by offsets in bytes."""

    def __init__(self, lines: list[str]) -> None:
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line.encode()))

    def position(self, span: tuple[int, int]) -> Position:
        """Line and column of start and end."""
        return (*self._place(span[0]), *self._place(span[1]))

    def _place(self, offset: int) -> tuple[int, int]:
        low, high = 0, len(self._starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._starts[middle] <= offset:
                low = middle
            else:
                high = middle - 1
        return low + 1, offset - self._starts[low]


def position_of(node: ast.expr) -> Position:
    """Line and column of start and end of a node."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def definition(lines: list[str], code: CodeType) -> ast.FunctionDef:
    """The tree of the function that was compiled to `code`. Raises `LookupError` if it is not in the text."""
    first = code.co_firstlineno
    # A definition ends before the first line that is not indented more than it; the parser finds that line.
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    end = first
    while end < len(lines):
        line = lines[end]
        is_inside = not line.strip() or len(line) - len(line.lstrip()) > indent
        if not is_inside and not line.lstrip().startswith(("#", ")", "]", "}", "@", "def ")):
            break
        end += 1
    for last in dict.fromkeys((end, len(lines))):
        for node in _parsed(lines, first, last, indent):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                return node
    return _definition_in_file(lines, code)


def _parsed(lines: list[str], first: int, last: int, indent: int) -> list[ast.stmt]:
    text = "".join(lines[first - 1 : last])
    head = "if 1:\n" if indent else "\n"
    try:
        tree = ast.parse(head + text)
    except (SyntaxError, ValueError):
        return []
    ast.increment_lineno(tree, first - 2)
    body = tree.body[:1]
    return body[0].body[:1] if indent and body and isinstance(body[0], ast.If) else body


def _definition_in_file(lines: list[str], code: CodeType) -> ast.FunctionDef:
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if first == code.co_firstlineno:
                return node
    raise LookupError(code.co_name)
