"""Edits the tree of a fused function, and compiles it with CPython's own `compile`.

The plan says which expressions become calls of groups. Everything else of the tree stays as it is, with its positions,
and each new node has the position of the expression that it stands for, so that tracebacks show the lines of the user.
"""

from __future__ import annotations

import ast
import copy
import sys
from types import CodeType
from typing import Any, cast

from polyloom._fusion_text import Position, TextIndex, position_of

# The function around a definition that is compiled again, and the name that the definition has there: by its own it
# would read itself, rather than the global.
_AROUND = "_loom_around"
_DEFINITION = "_loom_definition"
# A class around the definition has this before its name, likewise; private names are mangled without it.
_HIDING = "________"


def compiled(
    node: ast.FunctionDef, original: CodeType, free: tuple[str, ...], private_class: str | None, qualified: str
) -> CodeType:
    """Compiles a definition to code with these free variables, in any order."""
    node = copy.copy(node)
    node.name = _DEFINITION
    first = ast.Constant(None, lineno=original.co_firstlineno, col_offset=0, end_lineno=original.co_firstlineno)
    first.end_col_offset = 0
    node.decorator_list = [first] if original.co_firstlineno != node.lineno else []
    node.returns = None
    if hasattr(node, "type_params"):
        node.type_params = []
    body: list[ast.stmt] = [node]
    if private_class is not None:
        class_ = ast.ClassDef(_HIDING + private_class, [], [], body, [])
        if sys.version_info >= (3, 12):
            class_.type_params = []
        body = [class_]
    empty = ast.arguments([], [], None, [], [], None, [])
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in free]
    bindings: list[ast.stmt] = [ast.Assign(targets, ast.Constant(None))] if targets else []
    outer = ast.FunctionDef(_AROUND, empty, [*bindings, *body], [], None)
    if sys.version_info >= (3, 12):
        outer.type_params = []
    module = ast.Module([outer], [])
    ast.copy_location(outer, node)
    for each in bindings + body:
        ast.copy_location(each, node) if each is not node else None
    ast.fix_missing_locations(module)
    future = original.co_flags & 0x1FF0000
    whole = compile(module, original.co_filename, "exec", flags=future, dont_inherit=True)
    for code in _nested(whole):
        if code.co_name == _DEFINITION:
            if set(code.co_freevars) != set(free):
                break
            prefix = f"{_AROUND}.<locals>."
            if private_class is not None:
                prefix += f"{_HIDING}{private_class}."
            return _renamed(code, prefix + _DEFINITION, qualified).replace(co_name=original.co_name)
    raise LookupError(original.co_name)


def is_text_of(lines: list[str], code: CodeType) -> bool:
    """False if the text compiles to other code. Text that does not compile by itself is taken for that of the code."""
    try:
        whole = compile("".join(lines), code.co_filename, "exec", flags=code.co_flags & 0x1FF0000, dont_inherit=True)
    except SyntaxError:
        return True
    return any(each == code for each in _nested(whole))


def _renamed(code: CodeType, made: str, wanted: str) -> CodeType:
    """Code with the qualified names that it would have where the original is defined."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            constant = _renamed(constant, made, wanted)
        elif isinstance(constant, str) and sys.version_info < (3, 11) and constant.startswith(made):
            # Before 3.11, functions take their qualified names from constants.
            constant = wanted + constant[len(made) :]
        constants.append(constant)
    changes: dict[str, Any] = {"co_consts": tuple(constants)}
    if sys.version_info >= (3, 11):
        changes["co_qualname"] = wanted + code.co_qualname[len(made) :]
    return code.replace(**changes)


def _nested(code: CodeType) -> list[CodeType]:
    found = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += [constant, *_nested(constant)]
    return found


class FunctionRewriter(ast.NodeTransformer):
    """Replaces the expressions of a plan.

    `prefix` begins every hidden name, and is the name of the closure from which the function reads what it needs once:
    the guard of its entry, groups and constants of version `version`.
    """

    def __init__(self, plan: dict[str, Any], index: TextIndex, prefix: str, version: int) -> None:
        self.plan, self.index, self.prefix, self.version = plan, index, prefix, version
        self.constants: list[str] = []
        self.found = 0
        self.sites: dict[Position, tuple[int, int]] = {}
        for number, group in enumerate(plan["groups"]):
            for at, site in enumerate(group["sites"]):
                self.sites[index.position(site["range"])] = (number, at)
        self._released: list[str] = []
        self._kept: dict[int, list[str]] = {}
        self._left = [len(group["sites"]) for group in plan["groups"]]

    def rewritten(
        self, node: ast.FunctionDef, parameters: list[str], closure: tuple[str, ...], checked: list[str]
    ) -> ast.FunctionDef:
        """The definition with its calls of groups.

        The guard of the entry looks at `parameters`, and annotations declare what is `checked`.
        """
        self.closure = closure
        node = copy.copy(node)
        node.body = self._body(node.body)
        if self.found != len(self.sites):
            raise LookupError("a call of the plan is not in the tree")
        names = [self._name("entry"), *(self._name(f"g{number}") for number in range(len(self.plan["groups"])))]
        names += [self._name(f"n{number}") for number in range(len(self.plan["groups"]))]
        names += [self._name(f"c{number}") for number in range(len(self.constants))]
        state = self.prefix
        check = f"{state}.check_arguments({', '.join(checked)})\n" if checked else ""
        head = ast.parse(
            f"{check}{', '.join(names)}, = {state}.versions[{self.version}]\n"
            f"{state}.count()\n"
            f"{self._name('on')} = {names[0]}({', '.join(parameters)})\n"
            f"if not {self._name('on')}: {state}.keep_out({', '.join([str(self.version), *parameters])})\n"
        ).body
        has_doc = ast.get_docstring(node, clean=False) is not None
        following = node.body[int(has_doc)] if len(node.body) > int(has_doc) else node.body[0]
        for each in head:
            for inner in ast.walk(each):
                ast.copy_location(inner, following)
        node.body = [*node.body[: int(has_doc)], *head, *node.body[int(has_doc) :]]
        return node

    def _name(self, rest: str) -> str:
        return f"{self.prefix}_{rest}"

    def _body(self, statements: list[Any]) -> list[Any]:
        body: list[Any] = []
        for statement in statements:
            outer, self._released = self._released, []
            new = self.visit(statement)
            body.append(new)
            released, self._released = self._released, outer
            if released and not isinstance(new, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                # A hidden name would keep memory that the function has no more use for.
                dropped = ast.Assign([ast.Name(name, ast.Store()) for name in released], ast.Constant(None))
                body.append(_at(dropped, new))
        return body

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                is_body = bool(value) and isinstance(value[0], ast.stmt)
                setattr(node, field, self._body(value) if is_body else [self._visited(each) for each in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    def _visited(self, value: Any) -> Any:
        return self.visit(value) if isinstance(value, ast.AST) else value

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self._visit_site(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self._visit_site(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self._visit_site(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._visit_site(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._visit_site(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._visit_site(node)

    def _visit_site(self, node: ast.expr) -> ast.AST:
        place = self.sites.get(position_of(node))
        if place is None:
            return self.generic_visit(node)
        self.found += 1
        number, at = place
        group = self.plan["groups"][number]
        # The first call and the last one of a helper that is the whole group are in one place.
        is_first = group["moment"] == "first" or len(group["sites"]) == 1
        make = self._first if is_first else self._last
        new: ast.expr = _at(make(node, number, at), node)
        self._left[number] -= 1
        if not self._left[number]:
            self._released += [self._name(f"v{number}"), *self._kept.pop(number, [])]
        return new

    def _evaluated(self, node: ast.expr, number: int, at: int) -> tuple[list[ast.expr], ast.expr]:
        """The arguments that are evaluated first, and the call over what they are kept in."""
        site = self.plan["groups"][number]["sites"][at]
        wanted = {self.index.position(each["range"]): each for each in site["evaluated"]}
        prelude: list[ast.expr] = []
        replaced: dict[int, ast.expr] = {}
        # The object whose method is called is an argument itself.
        is_function = isinstance(node, ast.Call) and not site["is_method"]
        if is_function and any(each["may_run_code"] for each in site["evaluated"]):
            callee = self._name(f"f{number}_{at}")
            prelude.append(ast.NamedExpr(_store(callee), cast(ast.Call, node).func))
            replaced[id(cast(ast.Call, node).func)] = _load(callee)
        leaves = [inner for inner in _in_order(node) if isinstance(inner, ast.expr) and position_of(inner) in wanted]
        # Names that arguments bind anew are kept as they are before, should the call itself run after all.
        bound = {inner.target.id for leaf in leaves for inner in ast.walk(leaf) if isinstance(inner, ast.NamedExpr)}
        within = {id(inner) for leaf in leaves for inner in ast.walk(leaf)}
        for inner in _in_order(node) if bound else []:
            if isinstance(inner, ast.Name) and inner.id in bound and id(inner) not in within:
                wanted[position_of(inner)] = {"slot": None, "member": None}
        leaves = [inner for inner in _in_order(node) if isinstance(inner, ast.expr) and position_of(inner) in wanted]
        seen: set[Position] = set()
        for order, leaf in enumerate(leaves):
            position = position_of(leaf)
            if position in seen or leaf is node:
                continue
            seen.add(position)
            each = wanted[position]
            if each["slot"] is not None:
                name = self._name(f"g{number}_s{each['slot']}")
            elif each["member"] is not None:
                name = self._name(f"g{number}_h{each['member']}")
            else:
                name = self._name(f"g{number}_{at}_{order}")
            prelude.append(ast.NamedExpr(_store(name), self.visit(leaf)))
            self._kept.setdefault(number, []).append(name)
            replaced[id(leaf)] = _load(name)
        if len(seen) != len(wanted):
            raise LookupError("an argument of the plan is not in the tree")
        return prelude, _replaced(node, replaced)

    def _slots(self, number: int, n: int | None = None) -> list[ast.expr]:
        values: list[ast.expr] = []
        for slot, how in enumerate(self.plan["groups"][number]["slots"][:n]):
            if how == "kept":
                values.append(_load(self._name(f"g{number}_s{slot}")))
            elif "name" in how:
                values.append(_load(how["name"]))
            elif "path" in how:
                if how["path"] not in self.constants:
                    self.constants.append(how["path"])
                values.append(_load(self._name(f"c{self.constants.index(how['path'])}")))
            elif how["free"] in self.closure:
                values.append(_load(how["free"]))
            else:
                # A name that is gone raises where the program reads it, not here.
                names = ast.Attribute(_load(self.prefix), "names", ast.Load())
                test = ast.Compare(ast.Constant(how["free"]), [ast.In()], [names])
                values.append(ast.IfExp(test, _load(how["free"]), _load(self.prefix)))
        return values

    def _result(self, number: int, member: int) -> ast.expr:
        outputs = self.plan["groups"][number]["outputs"]
        if member not in outputs:
            return ast.Constant(None)
        value = _load(self._name(f"v{number}"))
        return value if len(outputs) == 1 else ast.Subscript(value, ast.Constant(outputs.index(member)), ast.Load())

    def _value(self, number: int, site: dict[str, Any]) -> ast.expr:
        values = [self._result(number, member) for member in site["results"]]
        return ast.Tuple(values, ast.Load()) if site["is_tuple"] else values[0]

    def _refused(self, number: int, original: ast.expr) -> ast.expr:
        refused = ast.Attribute(_load(self.prefix), "refused", ast.Load())
        call = ast.Call(refused, [ast.Constant(self.version), ast.Constant(number)], [])
        return _last_of([call, original])

    def _first(self, node: ast.expr, number: int, at: int) -> ast.expr:
        site = self.plan["groups"][number]["sites"][at]
        prelude, original = self._evaluated(node, number, at)
        held = self._name(f"v{number}")
        result = self._value(number, site)
        test: ast.expr
        if at == 0:
            call = ast.Call(_load(self._name(f"g{number}")), self._slots(number), [])
            run = ast.IfExp(_load(self._name("on")), call, ast.Constant(None))
            test = _is_not_none(ast.NamedExpr(_store(held), run))
            return _last_of([*prelude, ast.IfExp(test, result, self._refused(number, original))])
        test = _is_not_none(_load(held))
        if site["is_checked"]:
            same = ast.Call(_load(self._name(f"n{number}")), [], [])
            test = ast.BoolOp(ast.And(), [test, same])
        return _last_of([*prelude, ast.IfExp(test, result, original)])

    def _last(self, node: ast.expr, number: int, at: int) -> ast.expr:
        group = self.plan["groups"][number]
        site = group["sites"][at]
        prelude, original = self._evaluated(node, number, at)
        on, held = self._name(f"on{number}"), self._name(f"v{number}")
        values = self._slots(number, site["n_slots"])
        runner = _load(self._name(f"g{number}"))
        n_before, latest = min(site["members"]), max(site["members"])
        # Names are bound to it until the group has run.
        nothing: ast.expr = ast.Constant(None)
        if site["is_tuple"]:
            nothing = ast.Tuple([ast.Constant(None) for _ in site["results"]], ast.Load())
        check = ast.Call(ast.Attribute(runner, "check", ast.Load()), [ast.Constant(latest), *values], [])
        if at == 0:
            test: ast.expr = ast.NamedExpr(_store(on), ast.BoolOp(ast.And(), [_load(self._name("on")), check]))
            return _last_of([*prelude, ast.IfExp(test, nothing, self._refused(number, original))])
        # The members so far have not run yet, and do where the group does not.
        made = self._name(f"m{number}")
        arguments = [ast.Constant(self.version), ast.Constant(number), ast.Constant(n_before), *values]
        run = ast.Call(ast.Attribute(_load(self.prefix), "run_calls", ast.Load()), arguments, [])
        restored: list[ast.expr] = [ast.NamedExpr(_store(made), run)]
        # Results that this site or those around it have evaluated, and keep.
        nested = [
            (self._name(f"g{number}_h{each['member']}"), each["member"])
            for around in group["sites"][at:]
            for each in around["evaluated"]
            if each["member"] is not None and each["member"] < n_before
        ]
        for name, member in [*site["holders"], *nested]:
            value = ast.Subscript(_load(made), ast.Constant(member), ast.Load())
            restored.append(ast.NamedExpr(_store(name), value))
        restored.append(ast.NamedExpr(_store(on), ast.Constant(False)))
        slow = _last_of([ast.IfExp(_load(on), _last_of(restored), ast.Constant(None)), original])
        if at + 1 < len(group["sites"]):
            test = ast.BoolOp(ast.And(), [_load(on), check])
            return _last_of([*prelude, ast.IfExp(test, nothing, slow)])
        call = ast.NamedExpr(_store(held), ast.Call(runner, values, []))
        test = ast.BoolOp(ast.And(), [_load(on), _is_not_none(call)])
        bound: list[ast.expr] = [
            ast.NamedExpr(_store(name), self._result(number, member))
            for name, member in site["holders"]
            if member in group["outputs"]
        ]
        return _last_of([*prelude, ast.IfExp(test, _last_of([*bound, self._value(number, site)]), slow)])


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _is_not_none(value: ast.expr) -> ast.expr:
    return ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])


def _last_of(values: list[ast.expr]) -> ast.expr:
    """An expression that evaluates all and has the value of the last."""
    if len(values) == 1:
        return values[0]
    return ast.Subscript(ast.Tuple(values, ast.Load()), ast.Constant(-1), ast.Load())


def _in_order(node: ast.AST) -> list[ast.AST]:
    """A node and all below it, in evaluation order of arguments."""
    nodes = [node]
    for child in ast.iter_child_nodes(node):
        nodes += _in_order(child)
    return nodes


def _replaced(node: Any, new: dict[int, ast.expr]) -> Any:
    """A copy of a tree with some nodes replaced."""
    if id(node) in new:
        return new[id(node)]
    if isinstance(node, list):
        return [_replaced(each, new) for each in node]
    if not isinstance(node, ast.AST):
        return node
    node = copy.copy(node)
    for field, value in ast.iter_fields(node):
        setattr(node, field, _replaced(value, new))
    return node


def _at(new: Any, old: ast.AST) -> Any:
    """Gives the new nodes of a tree the position of the one that it stands for."""
    for node in ast.walk(new):
        if isinstance(node, (ast.expr, ast.stmt, ast.keyword)) and not hasattr(node, "lineno"):
            ast.copy_location(node, old)
    return new
