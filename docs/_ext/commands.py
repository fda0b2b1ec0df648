"""The page about the command line, made from the application, and a check of the commands on other pages.

It reads the functions and their annotations, which typer leaves unchanged, instead of typer's objects.
"""

from __future__ import annotations

import re
import shlex
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from types import NoneType
from typing import Any


@dataclass(frozen=True)
class Given:
    """An argument or option: its spelling, its value (none for a flag), its purpose, and its default in words."""

    names: tuple[str, ...]
    takes: str
    words: str
    default: str
    positional: bool


@dataclass(frozen=True)
class Command:
    """A command: its words, its purpose, and its arguments."""

    path: tuple[str, ...]
    words: str
    given: tuple[Given, ...]

    @property
    def usage(self) -> str:
        """Its line."""
        places = [each.names[0] for each in self.given if each.positional]
        options = ["[OPTIONS]"] if any(not each.positional for each in self.given) else []
        return " ".join([*self.path, *options, *places])

    @property
    def options(self) -> set[str]:
        """Return the options, which may start with a dash."""
        return {name for each in self.given if not each.positional for name in each.names} | {"--help"}


@cache
def all_commands() -> tuple[Command, ...]:
    """Return every command that does something. The first is ``panestream`` itself, with its own options."""
    from panestream.jobs.cli import app

    return tuple(_commands(app, ("panestream",)))


def _commands(app: Any, path: tuple[str, ...]) -> Iterator[Command]:
    if app.registered_callback is not None:
        yield _command(app.registered_callback.callback, path)
    for each in app.registered_commands:
        if not each.hidden:
            yield _command(each.callback, (*path, each.name or each.callback.__name__.replace("_", "-")), each.help)
    for group in app.registered_groups:
        yield from _commands(group.typer_instance, (*path, group.name or group.typer_instance.info.name))


def _command(function: Any, path: tuple[str, ...], words: str | None = None) -> Command:
    hints = typing.get_type_hints(function, include_extras=True)
    given = (_given(each, hints.get(each.name)) for each in signature(function).parameters.values())
    return Command(path, words or cleandoc(function.__doc__ or ""), tuple(each for each in given if each is not None))


def _given(each: Parameter, hint: Any) -> Given | None:
    from typer.models import ArgumentInfo, OptionInfo

    said = next((info for info in getattr(hint, "__metadata__", ()) if isinstance(info, (ArgumentInfo, OptionInfo))), None)
    if said is None or said.hidden:
        return None
    kind = typing.get_args(hint)[0]
    positional = isinstance(said, ArgumentInfo)
    # In an annotation, the first name is in the place of a default.
    first = (said.default,) if isinstance(said.default, str) else ()
    names = tuple(part for name in (*first, *(said.param_decls or ())) for part in name.split("/"))
    if not names:
        names = (each.name.upper(),) if positional else ("--" + each.name.replace("_", "-"),)
    missing = each.default is Parameter.empty
    value = "" if missing or each.default in (None, False, True, ()) else f"`{getattr(each.default, 'value', each.default)}`"
    takes = "" if kind is bool else _kind(kind)
    return Given(names, takes, said.help or "", "must be there" if missing and positional else value, positional)


def _kind(kind: Any) -> str:
    inner = [each for each in typing.get_args(kind) if each is not NoneType]
    if inner:
        return _kind(inner[0])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(str(each.value) for each in kind)
    return {Path: "PATH", int: "NUMBER", float: "NUMBER", str: "TEXT", bool: ""}.get(kind, "VALUE")


def markdown() -> str:
    """Return a section for each command: its purpose, and its arguments and options with their defaults."""
    parts = []
    for command in all_commands():
        rows = [_row(each) for each in command.given]
        if len(command.path) == 1 and not rows:
            continue
        parts += [f"## `{' '.join(command.path)}`", command.words, f"```sh\n{command.usage}\n```"]
        if rows:
            parts.append("\n".join(["| | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _row(given: Given) -> str:
    names = ", ".join(f"`{name}`" for name in given.names)
    return (
        f"| {names}{' ' + given.takes if given.takes and not given.positional else ''} | {_cell(given.words)} | {given.default} |"
    )


def _cell(words: str) -> str:
    return re.sub(r"([|<*_\\])", r"\\\1", " ".join(words.split()))


def wrong_in(text: str) -> list[str]:
    """Return the commands and options of ``panestream`` in a shell block that do not exist."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [fault for line in joined.splitlines() for fault in _wrong_in_line(line.strip().removeprefix("$ "))]


def _wrong_in_line(line: str) -> Iterator[str]:
    if not re.match(r"(\w+=\S* )*panestream(\s|$)", line):
        return
    words = shlex.split(line, comments=True)
    words = words[words.index("panestream") :]
    ends = [words.index(stop) for stop in ("|", "&&", ";", ">", "||") if stop in words]
    words = words[: min(ends, default=len(words))]
    fitting = [each for each in all_commands() if tuple(words[: len(each.path)]) == each.path]
    command = max(fitting, key=lambda each: len(each.path))
    rest = words[len(command.path) :]
    if len(command.path) == 1 and rest and not rest[0].startswith("-"):
        yield f"there is no command {rest[0]!r}"
        return
    known = command.options | ({"--install-completion", "--show-completion"} if len(command.path) == 1 else set())
    for word in rest:
        name = word.partition("=")[0]
        if name.startswith("-") and not re.fullmatch(r"-|-?\d.*", name) and name not in known:
            yield f"{' '.join(command.path)} has no {name}"
