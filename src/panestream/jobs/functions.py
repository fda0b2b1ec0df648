"""``[process]``, ``[apply]`` and ``[apply_arrow]`` of a job file: user functions by module and name.

A reference is imported, never evaluated.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panestream.errors import did_you_mean
from panestream.jobs.schema import DocumentPlace, InvalidValue, Section, boolean, ddl, name_like, setting, shown

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


_METHODS = ("process", "apply", "process_element")
"""The methods of user functions; an object with one of them is a function."""

reference = name_like(_REFERENCE, '"package.module:name"', "a module and a name in it, 'package.module:name'")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSection(Section):
    """``[apply]``: applies your function to the rows of each window that fires.

    Attributes:
        function: module and name of a function, or of a class (called without arguments). The module is a file or package next
            to the job file, which is sent to the executors. Otherwise it must be on PYTHONPATH or installed, also on executors.
        schema: columns of the function's results, in addition to keys and window.
    """

    function: str = setting(reference)
    schema: str = setting(ddl)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSection(FunctionSection):
    """``[process]``: applies your function to the rows of each window that fires, with a context, or without windows to each row.

    Attributes:
        stateless: declares that the function does not keep state between calls. Then rows are stored as columns if the windows
            allow it.
    """

    stateless: bool = setting(boolean, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowFunctionSection(FunctionSection):
    """``[apply_arrow]``: applies your function to the rows of windows as Arrow tables.

    Attributes:
        all_windows: whether it is called once with the rows of all windows that fire, instead of once for each window.
    """

    all_windows: bool = setting(boolean, False)


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A user function, or an instance of a user class, and its module's file or package if it is next to the job file."""

    value: Any
    home: Path | None


def find(spec: FunctionSection, folder: Path, place: DocumentPlace) -> LoadedFunction:
    """Import the function of a section from ``folder``, which holds the job file, or from Python's path.

    Raise ``JobError`` if the module or name does not exist, or if its import or the creation of an instance fails.
    """
    module_name, name = spec.function.split(":")
    top = module_name.split(".")[0]
    try:
        home = _home(top, folder)
        if home is None and top in sys.stdlib_module_names:
            place.wrong(f"{top!r} is a module of Python. Name a user function, in a file next to the job file or in a package")
        module = _imported(module_name, folder, home, place)
        if not hasattr(module, name):
            known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            place.wrong(f"{module_name} has no {name!r}; {did_you_mean(name, known)}")
        value = getattr(module, name)
        if not callable(value) and not any(hasattr(value, name) for name in _METHODS):
            place.wrong(f"{spec.function} is not a function, but {shown(value)}")
        return LoadedFunction(_made(value, spec.function, place), home)
    except InvalidValue:
        place.finish()
        raise


def _home(top: str, folder: Path) -> Path | None:
    """Return the path of the module or package ``top`` next to the job file, or None."""
    if (folder / top / "__init__.py").is_file():
        return folder / top
    return folder / f"{top}.py" if (folder / f"{top}.py").is_file() else None


def _imported(name: str, folder: Path, home: Path | None, place: DocumentPlace) -> Any:
    try:
        with _first_on_path(folder if home is not None else None):
            module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            place.wrong(f"importing {name} fails: {error}")
        beside = sorted(path.stem for path in folder.glob("*.py"))
        near = f"; {did_you_mean(error.name, beside)}" if beside else ""
        place.wrong(f"there is no module {error.name!r} in {folder}, nor on PYTHONPATH{near}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's module raises
        place.wrong(f"importing {name} fails: {type(error).__name__}: {error}")
    file = getattr(module, "__file__", None)
    if home is not None and (file is None or not Path(file).resolve().is_relative_to(folder.resolve())):
        place.wrong(f"{home.name} next to the job file has the name of a loaded module, {file}. Rename it")
    return module


@contextmanager
def _first_on_path(folder: Path | None) -> Generator[None]:
    """Put ``folder`` first on Python's path."""
    if folder is None:
        yield
        return
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield
    finally:
        sys.path.remove(str(folder.resolve()))


def _made(value: Any, what: str, place: DocumentPlace) -> Any:
    if not isinstance(value, type):
        return value
    try:
        return value()
    except Exception as error:  # noqa: BLE001 - whatever the user's class raises
        place.wrong(f"{what}() fails, and a class must be made without arguments: {type(error).__name__}: {error}")
