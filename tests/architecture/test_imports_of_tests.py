"""Everything that tests and benchmarks import from one another exists. Otherwise, an import within a function fails only when the
test runs, with Spark after minutes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOMES = ("tests", "benchmarks", "scripts")


def names_at_the_top(tree: ast.AST) -> set[str]:
    """Return the names that a module defines or imports at the top level, also within ``if`` and ``try``."""
    names: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.stmt):
            names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
            names |= names_at_the_top(node)
    return names


@cache
def names_of(path: Path) -> frozenset[str]:
    return frozenset(names_at_the_top(ast.parse(path.read_text("utf-8"))))


def missing(tree: ast.AST, root: Path) -> Iterator[str]:
    """Yield the modules and names below ``root`` that a module imports anywhere and that do not exist."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level or (node.module or "").partition(".")[0] not in HOMES:
            continue
        place = root.joinpath(*str(node.module).split("."))
        module = place.with_suffix(".py")
        if not module.is_file() and not place.is_dir():
            yield f"{node.lineno}: there is no {node.module}"
            continue
        module = module if module.is_file() else place / "__init__.py"
        there = names_of(module) if module.is_file() else frozenset()
        for alias in node.names:
            if not (alias.name in there or (place / alias.name).is_dir() or (place / f"{alias.name}.py").is_file()):
                yield f"{node.lineno}: {node.module} has no {alias.name}"


def test_imports_of_tests_and_benchmarks_exist():
    modules = [path for home in HOMES for path in (ROOT / home).rglob("*.py")]
    assert len(modules) > 400
    assert not [
        f"{path.relative_to(ROOT)}:{wrong}" for path in modules for wrong in missing(ast.parse(path.read_text("utf-8")), ROOT)
    ]


def test_missing_imports_are_reported(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "runs.py").write_text(
        "try:\n    import polars as pl\nexcept ImportError:\n    pl = None\ndef ran(): ...\n"
    )
    imports = (
        "def test():\n    from tests.runs import ran, pl, gone\n    from tests import runs\n    from tests.nowhere import x\n"
    )
    assert list(missing(ast.parse(imports), tmp_path)) == ["2: tests.runs has no gone", "4: there is no tests.nowhere"]
