"""Modules of a package, found where they lie: what is added to such a package needs no line in a list.

All of this works on a zip file, too, as which this package travels to executors.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType


def modules_of(package: str, path: Iterable[str]) -> list[ModuleType]:
    """Imports the modules of a package, those of packages inside it not, and gives them in the order of their names.

    Args:
        package: its full name.
        path: its ``__path__``.
    """
    return [import_module(f"{package}.{name}") for name in sorted(found.name for found in iter_modules(path))]


def module_called(package: str, name: str) -> ModuleType | None:
    """Imports one module of a package; None where it has none of that name."""
    full_name = f"{package}.{name}"
    return None if find_spec(full_name) is None else import_module(full_name)
