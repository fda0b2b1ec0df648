"""Discovery of a package's modules, also in a zip file on executors, so that new modules need not be listed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType


def modules_of(package: str, path: Iterable[str]) -> list[ModuleType]:
    """Import the modules of a package, without subpackages, and return them in the order of their names."""
    return [import_module(f"{package}.{name}") for name in sorted(found.name for found in iter_modules(path))]


def module_called(package: str, name: str) -> ModuleType | None:
    """Import a module of a package, or return None if it does not exist."""
    full_name = f"{package}.{name}"
    return None if find_spec(full_name) is None else import_module(full_name)
