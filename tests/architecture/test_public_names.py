"""Every name that users need is public exactly once. Pages, examples and the code agree with the list in `panestream/__init__`."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from inspect import isabstract
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import get_origin

import pytest

import panestream
from panestream.windowing.assigners import MergingWindowAssigner, WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.assigners.session import LimitedEventTimeSessionWindows
from panestream.windowing.triggers import Trigger
from tests.architecture.test_walls import parsed

ROOT = Path(__file__).resolve().parents[2]
DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in page.parts]
PAGES = [ROOT / "README.md", *DOCS, *sorted((ROOT / "examples").glob("*"))]
MADE_BY_METHODS = {LimitedEventTimeSessionWindows, SeveralWindows}
"""Results of ``max_duration``, and of ``.window`` with several windows."""


NAMESPACES = {name: getattr(panestream, name) for name in panestream._NAMESPACES}
PUBLIC = {
    **{name: getattr(panestream, name) for name in panestream.__all__},
    **{f"{at}.{name}": getattr(namespace, name) for at, namespace in NAMESPACES.items() for name in namespace.__all__},
}
"""All public values by their names after ``pst.``."""
NAMES = {name.rpartition(".")[2] for name in PUBLIC}


def test_the_top_level_has_at_most_sixty_names():
    assert len(panestream.__all__) <= 60


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_resolves_to_an_object_of_that_name(name):
    value, own = PUBLIC[name], name.rpartition(".")[2]
    if is_class(value) or isinstance(value, (ModuleType, FunctionType)):
        assert value.__name__.split(".")[-1] == {"agg": "aggregates"}.get(own, own)
    assert own in dir(NAMESPACES.get(name.partition(".")[0], panestream) if "." in name else panestream)


def test_name_in_two_namespaces_is_the_same_object():
    values: dict[str, object] = {}
    for name, value in PUBLIC.items():
        assert values.setdefault(name.rpartition(".")[2], value) is value, name


@pytest.mark.parametrize("name", sorted(NAMES - {*panestream.__all__}))
def test_error_for_a_name_of_a_namespace_shows_the_qualified_name(name):
    with pytest.raises(panestream.errors.UnknownNameError, match=rf"[Ww]rite pst\.\w+\.{name}$"):
        getattr(panestream, name)


@pytest.mark.parametrize("name", ["nothing", "aggregates", "_aggregates", "GapColumn", "__path_of_nothing__"])
def test_names_that_are_not_public_raise_attribute_error(name):
    assert name not in panestream.__all__
    with pytest.raises(AttributeError, match=f"'panestream' has no attribute '{name}'"):
        getattr(panestream, name)


@pytest.mark.parametrize("namespace", [panestream, panestream.agg, panestream.metrics, panestream.testing, *NAMESPACES.values()])
def test_dir_of_a_namespace_shows_public_names_only(namespace):
    shown = {name for name in dir(namespace) if not name.startswith("__")}
    assert shown == {*namespace.__all__}


def test_dir_of_errors_shows_errors_and_no_imports():
    assert {"PanestreamError", "PanestreamWarning"} <= {*dir(panestream.errors)}
    assert not {"annotations", "difflib", "Iterable", "Mapping"} & {*dir(panestream.errors)}


def documented_names(path: Path) -> set[str]:
    """Return the names that have a string below their assignment, or a docstring as a class or function."""
    body = parsed(path.read_text("utf-8")).body
    assigned = {
        ast.unparse(node.targets[0])
        for node, below in pairwise(body)
        if isinstance(node, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }
    return assigned | {
        node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    }


def test_every_public_alias_and_constant_is_documented():
    documented = {name for path in sorted(Path(panestream.__file__).parent.rglob("*.py")) for name in documented_names(path)}
    values = [name for name, value in PUBLIC.items() if not isinstance(value, ModuleType)]
    assert not [name for name in values if name.rpartition(".")[2] not in documented]


def test_base_classes_for_user_defined_windows_are_public():
    wanted = {
        *("Trigger", "TriggerContext", "OnMergeContext", "TriggerResult", "WindowAssigner", "MergingWindowAssigner"),
        *("merge_touching", "Evictor", "EvictorContext", "TimestampedValue", "ProcessWindowFunction", "WindowContext"),
        *("KeyedStateStore", "ValueStateDescriptor", "TimeWindow", "GlobalWindow", "Window", "testing", "agg", "errors"),
    }
    assert wanted <= NAMES


def is_class(value: object) -> bool:
    """Return whether a value is a class. Python 3.10 also treats aliases such as ``Callable[[int], int]`` as classes."""
    return isinstance(value, type) and get_origin(value) is None


def public_classes(package: str, base: type) -> set[type]:
    """Return the public classes of a kind that the modules of a package define."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__, package + ".")
    ]
    values = [(module, name, value) for module in modules for name, value in vars(module).items()]
    return {
        value
        for module, name, value in values
        if is_class(value) and issubclass(value, base) and value.__module__ == module.__name__ and not name.startswith("_")
    }


@pytest.mark.parametrize(("package", "base"), [("assigners", WindowAssigner), ("triggers", Trigger)])
def test_every_trigger_and_assigner_is_public(package, base):
    defined = public_classes(f"panestream.windowing.{package}", base)
    assert len(defined) > 8
    assert {MergingWindowAssigner, Trigger} & defined
    assert not [kind.__name__ for kind in defined - MADE_BY_METHODS if not (isabstract(kind) or kind.__name__ in NAMES)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.is_file()], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_public_names_only(page):
    """Check that `pst.x.y` exists, and that no page sends users into an internal module."""
    text = page.read_text("utf-8")
    for name in sorted(set(re.findall(r"\bpst\.(\w+(?:\.\w+)?)", text))):
        at, _, inner = name.partition(".")
        assert name in PUBLIC if inner and at in NAMESPACES else at in panestream.__all__, f"{page.name} speaks of pst.{name}"
    deep = set(re.findall(r"\bpanestream\.(?:windowing|engine|datastream)\.[\w.]*\w", text))
    assert not {name for name in deep if not name.startswith("panestream.windowing.aggregates.")}, page.name


def test_strict_mypy_sees_every_public_name():
    """Check all names in one run, since mypy is slow to start. Imports that are not re-exported explicitly are not followed."""
    program = "import panestream as pst\n" + "".join(f"pst.{name}\n" for name in PUBLIC)
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-incremental", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "does not explicitly export" not in found.stdout
    assert "has no attribute" not in found.stdout, found.stdout


@pytest.mark.parametrize("module", [panestream, *(each for each in NAMESPACES.values() if hasattr(each, "_NAMES"))])
def test_public_names_are_imported_once(module):
    """Check that each name has one import. A name that a star import brings must not be imported again."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    named = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names if alias.name != "*"]
    starred = [
        name
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for name in importlib.import_module(str(node.module)).__all__
    ]
    assert len({*named, *starred}) == len(named) + len(starred) == len(module.__all__)
