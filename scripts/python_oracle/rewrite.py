"""The text of a program as CPython runs it on the stand-ins of `model`.

Three rules of kernels show in no operation of a value, so the syntax tree is rewritten for them: a variable holds a
typed copy of what it is assigned, an update of a name makes a new value, and sums of array elements are atomic.
"""

from __future__ import annotations

import ast
from typing import Any

from . import model

_OPERATOR_NAMES: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}


def load(source: str) -> dict[str, Any]:
    """Runs a program's text on the stand-ins and gives its names."""
    tree = ast.fix_missing_locations(_Rewriter().visit(ast.parse(source)))
    namespace: dict[str, Any] = {
        **model.BUILTINS,
        "loom": model.package(),
        "_bound": model.bound,
        "_as_type": model.as_type,
        "_augment": model.augment,
    }
    exec(compile(tree, "<program>", "exec", dont_inherit=True), namespace)
    return namespace


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _index_value(index: ast.expr) -> ast.expr:
    """An index as an expression of its own: slices have no meaning outside brackets."""
    if isinstance(index, ast.Slice):
        bounds = (index.lower, index.upper, index.step)
        return _call("slice", *(b or ast.Constant(None) for b in bounds))
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_index_value(part) for part in index.elts], ast.Load())
    return index


class _Rewriter(ast.NodeTransformer):
    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _call("_bound", node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return node
        return ast.Assign([node.target], _call("_as_type", node.value, node.annotation))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        match node.target:
            case ast.Name(name):
                updated = ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)
                return ast.Assign([node.target], _call("_bound", updated))
            case ast.Subscript(target, index):
                operator = ast.Constant(_OPERATOR_NAMES[type(node.op)])
                late = ast.Lambda(ast.arguments([], [], None, [], [], None, []), node.value)
                return ast.Expr(_call("_augment", target, _index_value(index), operator, late))
        return node
