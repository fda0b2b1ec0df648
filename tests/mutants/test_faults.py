"""The planted change is exactly the listed fault."""

from __future__ import annotations

import ast
import textwrap
from types import FunctionType

import pytest

from tests.mutants.equivalents import EQUIVALENT
from tests.mutants.faults import faults_of, planted
from tests.mutants.reach import PACKAGE, lines_of


def changes(body):
    source = "def f(x, y=1):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return source, faults_of(source, "m.py")


def result(source, fault, *arguments):
    names = {}
    return FunctionType(planted(source, fault, "m.py"), {**names, "__builtins__": __builtins__}, "f", (1,))(*arguments)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x < 3", ["returns None: return x < 3 -> return", "comparison: x < 3 -> x <= 3", "constant: 3 -> 4"]),
        ("return x or y", ["returns None: return x or y -> return", "and / or: x or y -> x and y"]),
        ("if not x:\n    y.go(1)", ["turned round: not x -> bool(x)", "left out: y.go(1) -> pass", "constant: 1 -> 2"]),
        ("if x:\n    del y", ["turned round: x -> not x", "left out: del y -> pass"]),
        ("x.a += y", ["left out: x.a += y -> pass", "sign: x.a += y -> x.a -= y"]),
        ("x = min(-y, x)", ["the other of two: min(-y, x) -> max(-y, x)", "sign: -y -> +y"]),
        ("x = y.go(to=x)", ["argument left out: y.go(to=x) -> y.go()"]),
        ("x = Some(to=x)", []),
        ("x: int = y is None", ["comparison: y is None -> y is not None"]),
        ("for x in y:\n    break", ["the other way out: break -> continue"]),
        ("x[1] = True", ["left out: x[1] = True -> pass", "constant: 1 -> 2", "constant: True -> False"]),
        ('raise ValueError(f"{x + 1} of " + "2" * 3)', ['left out: raise ValueError(f"{x + 1} of " + "2" * 3) -> pass']),
        ('"""A docstring: 1 + 1."""\nx = "a text"', []),
        ('x = y.find(x, side="left")', ["argument left out: y.find(x, side='left') -> y.find(x)", "constant: 'left' -> 'right'"]),
    ],
)
def test_code_has_the_expected_faults(body, expected):
    _, found = changes(body)
    assert [f"{fault.what}: {fault.before} -> {fault.after}".replace("'", '"') for fault in found] == [
        each.replace("'", '"') for each in expected
    ]


def test_each_fault_is_planted_alone():
    source, found = changes("return [x < 3, x + 1, x if y else 7]")
    told = [result(source, fault, 3) for fault in found]
    assert told == [
        None,
        [True, 4, 3],
        [True, 4, 3],
        [False, 2, 3],
        [False, 5, 3],
        [False, 4, 7],
        [False, 4, 3],
    ]


def test_equal_changes_in_a_function_have_different_names():
    _, found = changes("x.go()\nx.go()")
    assert [fault.name for fault in found] == ["m.py:f: left out: x.go() -> pass", "m.py:f: left out: x.go() -> pass (2)"]


def test_fault_is_refused_if_its_module_has_changed():
    _, found = changes("return x < 3")
    with pytest.raises(LookupError, match="no such fault"):
        planted("def f(x):\n    return x", found[1], "m.py")


def test_nested_functions_belong_to_the_outermost_function():
    source = "class A:\n    @property\n    def f(self):\n        def g():\n            return self.x + 1\n        return g\n"
    assert {fault.function for fault in faults_of(source, "m.py")} == {"A.f"}
    assert lines_of(source) == dict.fromkeys(range(2, 7), "A.f")
    ast.parse(source)


@pytest.mark.full
def test_every_equivalent_fault_can_still_be_planted():
    modules = {name.partition(":")[0] for name in EQUIVALENT}
    names = {fault.name for module in modules for fault in faults_of((PACKAGE / module).read_text("utf-8"), module)}
    assert not set(EQUIVALENT) - names
    assert all(len(reason) > 20 for reason in EQUIVALENT.values())
