"""The faults that can be planted in a module. Each is a small change in the body of one function, like a slip of the hand.

Bounds of comparisons, signs, ``and`` for ``or``, inverted conditions, constants off by one, minimum for maximum, missing
statements and arguments. Error messages, annotations, docstrings and code that runs only at import stay. The first three have no
effect, and the last cannot be planted in a process that has imported the module.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, cast

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
_WORDS = {"left": "right", "right": "left"}
"""Sides of a search, as strings with a meaning."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fault:
    """A change that can be planted.

    Args:
        module: path of the file below the package.
        function: the outermost function, as ``Class.method``.
        line: the line number.
        what: the kind of change.
        before: the piece of code.
        after: its replacement.
        number: the number of the change in the module.
        occurrence: the index among equal changes of equal code in the function.
    """

    module: str
    function: str
    line: int
    what: str
    before: str
    after: str
    number: int
    occurrence: int = 1

    @property
    def name(self) -> str:
        """Return a name for lists that does not depend on the rest of the file."""
        again = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.module}:{self.function}: {self.what}: {self.before} -> {self.after}{again}"

    @property
    def place(self) -> str:
        """Return the function in the form of `reach`."""
        return f"{self.module}:{self.function}"


@dataclass(frozen=True)
class _Change:
    what: str
    node: ast.AST
    do: Callable[[], None]
    undo: Callable[[], None]
    shown: ast.AST | None = None
    """The node that replaces this node, if it changes the type."""


def faults_of(source: str, module: str) -> list[Fault]:
    """Return all faults that can be planted in a module."""
    tree = ast.parse(source)
    found: list[Fault] = []
    times: Counter[str] = Counter()
    for qualified, function in functions_of(tree):
        for change in _changes(function):
            before = _piece(change.node)
            change.do()
            after = _piece(change.shown or change.node)
            change.undo()
            fault = Fault(module, qualified, getattr(change.node, "lineno", 0), change.what, before, after, len(found))
            times[fault.name] += 1
            found.append(replace(fault, occurrence=times[fault.name]))
    return found


def planted(source: str, fault: Fault, filename: str) -> CodeType:
    """Return the code of the fault's function, with the fault.

    Raises:
        LookupError: the module does not have this fault.
    """
    tree = ast.parse(source)
    number = 0
    for qualified, function in functions_of(tree):
        for change in _changes(function):
            if number == fault.number and qualified == fault.function and _piece(change.node) == fault.before:
                change.do()
                return code_of(compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True), function)
            number += 1
    raise LookupError(f"no such fault in {fault.module}: {fault.name}")


def functions_of(tree: ast.Module) -> list[tuple[str, Function]]:
    """Return the outermost functions: functions of the module and methods of its classes."""
    found: list[tuple[str, Function]] = []

    def look(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, Function):
                found.append((before + node.name, node))
            elif isinstance(node, ast.ClassDef):
                look(node.body, f"{before}{node.name}.")

    look(tree.body, "")
    return found


def first_line(function: Function) -> int:
    """Return the line at which Python starts a function, which is the line of its first decorator."""
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def code_of(code: CodeType, function: Function) -> CodeType:
    """Return the code of a function within the code of its module."""
    line = first_line(function)
    pending = [code]
    while pending:
        looked_at = pending.pop()
        if looked_at.co_name == function.name and looked_at.co_firstlineno == line:
            return looked_at
        pending += [each for each in looked_at.co_consts if isinstance(each, CodeType)]
    raise LookupError(f"no code of {function.name} at line {line}")


def _piece(node: ast.AST) -> str:
    """Return a piece of code on one line."""
    text = ast.unparse(node).splitlines()
    return text[0] + (" ..." if len(text) > 1 else "")


def _changes(function: Function) -> Iterator[_Change]:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    for at in range(len(function.body) - len(body), len(function.body)):
        yield from _in_statement(function.body, at)


def _set(node: ast.AST, name: str, value: object) -> tuple[Callable[[], None], Callable[[], None]]:
    before = getattr(node, name)
    return (lambda: setattr(node, name, value)), (lambda: setattr(node, name, before))


def _put(items: list[Any], at: int, value: ast.AST) -> tuple[Callable[[], None], Callable[[], None]]:
    before = items[at]
    return (lambda: items.__setitem__(at, value)), (lambda: items.__setitem__(at, before))


def _in_statement(body: list[ast.stmt], at: int) -> Iterator[_Change]:
    node = body[at]
    plain = ast.copy_location(ast.Pass(), node)
    if isinstance(node, ast.Assert) or _is_text(node):
        return
    if _can_be_left_out(node):
        yield _Change("left out", node, *_put(body, at, plain), shown=plain)
    if isinstance(node, ast.Raise):  # the text of an error is not arithmetic
        return
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield _Change("returns None", node, *_set(node, "value", None))
    if isinstance(node, ast.Break | ast.Continue):
        other = ast.copy_location(ast.Continue() if isinstance(node, ast.Break) else ast.Break(), node)
        yield _Change("the other way out", node, *_put(body, at, other), shown=other)
    if isinstance(node, ast.AugAssign) and type(node.op) in _OTHER:
        yield _Change("sign", node, *_set(node, "op", _OTHER[type(node.op)]()))
    if isinstance(node, ast.If | ast.While) and not _is_turned_below(node.test):
        turned = _turned(node)
        yield _Change("turned round", node.test, *turned, shown=ast.UnaryOp(ast.Not(), node.test))
    yield from _within(node)


def _can_be_left_out(node: ast.stmt) -> bool:
    """Return whether a statement can be missing without making a name undefined: calls, raises, assignments to attributes, counting."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Yield | ast.YieldFrom)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Delete)


def _turned(node: ast.If | ast.While | ast.IfExp) -> tuple[Callable[[], None], Callable[[], None]]:
    return _set(node, "test", ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test))


def _within(node: ast.AST) -> Iterator[_Change]:
    """Yield the changes below a node, in the order of the text."""
    if isinstance(node, ast.JoinedStr | ast.ClassDef):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return  # the `strict` of `zip` only guards against our own mistakes
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue  # annotations have no effect, and defaults are evaluated at import (rarely in nested functions)
        if isinstance(value, list):
            for at, each in enumerate(value):
                if isinstance(each, ast.stmt):
                    yield from _in_statement(value, at)
                elif isinstance(each, ast.AST) and not (_is_cast(node) and at == 0):
                    yield from _in_expression(each, value, at)
        elif isinstance(value, ast.AST):
            yield from _in_expression(value, node, name)


def _in_expression(node: ast.AST, owner: ast.AST | list[ast.AST], place: str | int) -> Iterator[_Change]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            yield _Change("comparison", node, *_put(node.ops, at, _OTHER[type(operator)]()))
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER and not (_is_text(node.left) or _is_text(node.right)):
        yield _Change("sign", node, *_set(node, "op", _OTHER[type(node.op)]()))
    elif isinstance(node, ast.BoolOp):
        yield _Change("and / or", node, *_set(node, "op", _OTHER[type(node.op)]()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _Change("sign", node, *_set(node, "op", ast.UAdd()))
    elif _is_not(node):
        truth = ast.copy_location(ast.Call(ast.Name("bool", ast.Load()), [cast("ast.UnaryOp", node).operand], []), node)
        change = _put(owner, cast("int", place), truth) if isinstance(owner, list) else _set(owner, cast("str", place), truth)
        yield _Change("turned round", node, *change, shown=truth)
    elif isinstance(node, ast.IfExp) and not _is_turned_below(node.test):
        yield _Change("turned round", node, *_turned(node))
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    yield from _within(node)


def _constant(node: ast.Constant) -> Iterator[_Change]:
    value = node.value
    if isinstance(value, bool):
        yield _Change("constant", node, *_set(node, "value", not value))
    elif isinstance(value, int):
        yield _Change("constant", node, *_set(node, "value", value + 1))
    elif isinstance(value, str) and value in _WORDS:
        yield _Change("constant", node, *_set(node, "value", _WORDS[value]))


def _call(node: ast.Call) -> Iterator[_Change]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in _NAMES:
        yield _Change("the other of two", node, *_set(called, "id", _NAMES[called.id]))
    elif isinstance(called, ast.Attribute) and called.attr in _NAMES:
        yield _Change("the other of two", node, *_set(called, "attr", _NAMES[called.attr]))
    for at, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict") and not _is_class(called):

            def drop(at: int = at) -> None:
                del node.keywords[at]

            def again(at: int = at, keyword: ast.keyword = keyword) -> None:
                node.keywords.insert(at, keyword)

            yield _Change("argument left out", node, drop, again)


def _is_class(called: ast.expr) -> bool:
    """Return whether a class is called. Most fields have no default, and an immediate error shows nothing about tests."""
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return name[:1].isupper() or (name.startswith("_") and name[1:2].isupper())


def _is_cast(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("cast", "isinstance")


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_turned_below(test: ast.AST) -> bool:
    """Return whether a change of the condition itself already inverts it."""
    turned = (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
    )
    return turned or _is_not(test)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.AST) -> bool:
    node = node.value if isinstance(node, ast.Expr) else node
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
