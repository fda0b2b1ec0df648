"""Load the public names of a module at first use, since Spark's new Python processes often need only a single module.

A public module lists its names as imports under ``if TYPE_CHECKING:``, which type checkers and this module read.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from panestream.errors import UnknownNameError
from panestream.windowing.foreign_names import resolve


@dataclass(frozen=True)
class LazyNames:
    """The public names of a module."""

    module: str

    @property
    def homes(self) -> dict[str, tuple[str, str]]:
        """The home of each public name: the module that defines it, and its name there."""
        return _homes(self.module)

    def get(self, name: str) -> Any:
        """Return the value of a name, for the module's ``__getattr__``, or raise UnknownNameError with the line to write."""
        module = sys.modules[self.module]
        if name == "__all__":
            return sorted(self.homes)
        if name.startswith("_") or name not in self.homes:
            return resolve(module, name, ["panestream"], f"module {self.module!r}")
        home, own = self.homes[name]
        try:
            defining = import_module(home)
            # A name that the module does not define is a submodule.
            value = getattr(defining, own) if own in vars(defining) else import_module(f"{home}.{own}")
        except ModuleNotFoundError as error:
            if error.name != "pyspark":
                raise
            raise ModuleNotFoundError(
                "panestream needs PySpark, which is not installed: pip install 'panestream[spark]'", name="pyspark"
            ) from error
        setattr(module, name, value)
        return value

    def names(self) -> list[str]:
        """Return the names for ``dir()`` of the module."""
        return sorted({*self.homes, *(name for name in vars(sys.modules[self.module]) if name.startswith("__"))})


@cache
def _homes(module: str) -> dict[str, tuple[str, str]]:
    loader: Any = sys.modules[module].__spec__.loader  # type: ignore[union-attr]
    blocks = [node for node in ast.parse(loader.get_source(module)).body if isinstance(node, ast.If)]
    homes: dict[str, tuple[str, str]] = {}
    for statement in blocks[0].body:
        if isinstance(statement, ast.Assign):  # another public name for an import above
            homes[ast.unparse(statement.targets[0])] = homes.pop(ast.unparse(statement.value))
        elif isinstance(statement, ast.ImportFrom):
            home = str(statement.module)
            for imported in statement.names:
                names = import_module(home).__all__ if imported.name == "*" else [imported.name]
                homes.update({(imported.asname or name): (home, name) for name in names})
    return homes


def in_namespaces(names: LazyNames, name: str, namespaces: Sequence[str]) -> Any:
    """Return the value of a foreign name, or raise UnknownNameError, with the namespace that has it if there is one."""
    for namespace in [] if name.startswith("_") else namespaces:
        with suppress(ModuleNotFoundError):  # some need PySpark
            if name in import_module(f"{names.module}.{namespace}").__all__:
                raise UnknownNameError(f"module {names.module!r} has no attribute {name!r}: write pst.{namespace}.{name}")
    return names.get(name)
