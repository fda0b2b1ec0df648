"""Reads a TOML or YAML file with the line of every key, so that errors can point at it.

PyYAML's node tree has the lines, :mod:`tomllib` does not: a small scanner reads TOML again, and may trust that it is valid.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from panestream.errors import JobError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the standard library has it from 3.11 on
    import tomli as tomllib

KeyPath = tuple[str | int, ...]
"""The path of a value: ``("window", "slide")``, ``("aggregate", 0, "function")``."""

MAX_BYTES = 1 << 18
"""No job file is larger; the user probably passed the data instead."""
MAX_DEPTH = 30
"""The deepest nesting of tables and arrays; no job file needs more."""
MAX_VALUES = 20_000
"""The largest number of keys and array elements; PyYAML takes 0.1 ms for each."""
_MAX_DOTS = 1_000
"""The largest number of dots in a line: the time of ``tomllib`` for a dotted key grows with the square of its parts."""
_LONG_NUMBER = re.compile(r"(?<=[=\[,\s+-])[0-9_]{600,}")
_YAML_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MAX_DIGITS = 100


@dataclass(frozen=True, slots=True)
class Document:
    """A job file with its top-level table, and with the line (from 1) of each key and array element."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    def line_of(self, where: KeyPath) -> int | None:
        """Return the line of a key, or of the first key below it, or of the closest table around it; None for the top level."""
        for length in range(len(where), 0, -1):
            below = [line for path, line in self.lines.items() if path[:length] == where[:length]]
            if below:
                return self.lines.get(where[:length], min(below))
        return None


def load_document(path: Path) -> Document:
    """Read a TOML or YAML file; raise ``JobError`` for another suffix, and if it is missing, too large, not UTF-8 or invalid."""
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".yaml", ".yml"):
        raise JobError(f"{path}: a job file ends in .toml, .yaml or .yml")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise JobError(f"{path}: there is no such file") from None
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise JobError(f"{path}: {len(raw):,} bytes are too many for a job file (at most {MAX_BYTES:,}); is it the data?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise JobError(f"{path}:{line}: not UTF-8 text") from None
    try:
        return _toml(path, text) if suffix == ".toml" else _yaml(path, text)
    except RecursionError:
        raise JobError(f"{path}: nested too deeply for a job file") from None


def _cut(message: str) -> str:
    """Shorten a parser's message, which may contain a whole line of the file."""
    return message if len(message) <= 200 else message[:197] + "..."


def _toml(path: Path, text: str) -> Document:
    for number, line in enumerate(text.split("\n") if text.count(".") > _MAX_DOTS else (), start=1):
        if line.count(".") > _MAX_DOTS:
            raise JobError(f"{path}:{number}: more than {_MAX_DOTS:,} dots in a line: nested too deeply for a job file")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        if at is None:
            raise JobError(f"{path}: not valid TOML: {error}") from None
        message = str(error)[: at.start()]
        raise JobError(f"{path}:{at.group(1)}: not valid TOML: {_cut(message)} (column {at.group(2)})") from None
    except ValueError as error:
        found = _LONG_NUMBER.search(text)
        line_number = f":{text.count(chr(10), 0, found.start()) + 1}" if found is not None else ""
        raise JobError(f"{path}{line_number}: not valid TOML: {_cut(str(error).split(';')[0])}") from None
    return Document(path, data, toml_lines(text))


def _yaml(path: Path, text: str) -> Document:
    try:
        import yaml
    except ImportError:
        raise JobError(f"{path}: YAML job files need PyYAML: pip install pyyaml (or write the job as .toml)") from None

    try:
        loader = _yaml_loader()(path, text)
        root = loader.get_single_node()
        data = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise JobError(f"{path}{line}: not valid YAML: {_cut(str(error.problem or error.context))}") from None
    except yaml.reader.ReaderError as error:
        line = f":{text.count(chr(10), 0, error.position) + 1}"
        raise JobError(f"{path}{line}: not valid YAML: the character {text[error.position]!r} is not allowed") from None
    except yaml.YAMLError as error:
        raise JobError(f"{path}: not valid YAML: {_cut(str(error))}") from None
    if not isinstance(data, dict):
        raise JobError(f"{path}: a job file is a table of keys, this is {'empty' if data is None else type(data).__name__}")
    lines: dict[KeyPath, int] = {}
    _walk_yaml(path, root, (), lines)
    return Document(path, data, lines)


@cache
def _yaml_loader() -> type[Any]:
    """Return the YAML reader class. It is created on demand because PyYAML is an optional dependency."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader that checks each node before it reads the next one, and refuses files that would take long."""

        def __init__(self, path: Path, text: str) -> None:
            super().__init__(text)
            self.path = path
            self.depth = self.nodes = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            place = f"{self.path}:{event.start_mark.line + 1}"
            if isinstance(event, yaml.AliasEvent):
                # An alias may repeat or contain its own surroundings: a few lines could unfold into gigabytes.
                raise JobError(f"{place}: aliases (*{event.anchor}) are not supported in job files")
            self.nodes += 1
            if self.nodes > 2 * MAX_VALUES:  # keys are nodes, too
                raise JobError(f"{place}: more than {MAX_VALUES:,} values are too many for a job file")
            if self.depth > MAX_DEPTH:
                raise JobError(f"{place}: nested too deeply for a job file (more than {MAX_DEPTH} levels)")
            self.depth += 1
            node: Any = super().compose_node(parent, index)
            self.depth -= 1
            if node.tag in _YAML_NUMBERS and len(node.value) > _MAX_DIGITS:
                raise JobError(f"{place}: a number of {len(node.value):,} characters is too large")
            return node

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except ValueError as error:  # the 45th of a month
                if isinstance(error, JobError):
                    raise
                raise JobError(f"{self.path}:{node.start_mark.line + 1}: not valid YAML: {_cut(str(error))}") from None

    return Loader


def _walk_yaml(path: Path, node: Any, where: KeyPath, lines: dict[KeyPath, int]) -> None:
    """Note the lines of all keys and elements below ``node``; refuse duplicate keys, which PyYAML accepts silently."""
    if node.id == "mapping":
        for key, value in node.value:
            inside = (*where, str(key.value))
            if inside in lines:
                raise JobError(f"{path}:{key.start_mark.line + 1}: {key.value!r} is given twice")
            lines[inside] = key.start_mark.line + 1
            _walk_yaml(path, value, inside, lines)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            lines[(*where, index)] = value.start_mark.line + 1
            _walk_yaml(path, value, (*where, index), lines)


def toml_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line of every key, table header and array element of a valid TOML text.

    >>> toml_lines('a = 1\n[window]\nsize = "1 hour"')
    {('a',): 1, ('window',): 2, ('window', 'size'): 3}
    """
    return _TomlScanner(text).scan()


class _TomlScanner:
    """A scanner of valid TOML that notes the lines of keys and skips values without interpreting them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[KeyPath, int] = {}
        self._sizes: dict[KeyPath, int] = {}  # the number of entries of each array of tables so far
        self._counted = (0, 1)  # a position and its line: counting from the start each time would take minutes

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip(newlines=True):
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.lines

    def _line(self) -> int:
        position, line = self._counted
        self._counted = self.position, line + self.text.count("\n", position, self.position)
        return self._counted[1]

    def _skip(self, *, newlines: bool) -> bool:
        blanks = " \t\r\n" if newlines else " \t"
        while self.position < len(self.text):
            if self.text[self.position] in blanks:
                self.position += 1
            elif self.text[self.position] == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            else:
                return True
        return False

    def _header(self) -> KeyPath:
        line = self._line()
        many = self.text.startswith("[[", self.position)
        self.position += 2 if many else 1
        names = self._key()[: MAX_DEPTH + 1]
        self.position += 2 if many else 1
        where: KeyPath = ()
        for depth, name in enumerate(names):
            where = (*where, name)
            if many and depth == len(names) - 1:
                self.lines.setdefault(where, line)
                self._sizes[where] = self._sizes.get(where, 0) + 1
            if where in self._sizes:
                where = (*where, self._sizes[where] - 1)
        self.lines.setdefault(where, line)
        return where

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        where = table
        for name in self._key()[: MAX_DEPTH + 1]:
            where = (*where, name)
            self.lines.setdefault(where, line)
        self.position += 1  # the equals sign
        self._value(where)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._skip(newlines=False)
            start = self.position
            if self.text[start] in "\"'":
                self._string()
                # A quoted key is a TOML string, so the real parser resolves its escapes.
                parts.append(tomllib.loads("k=" + self.text[start : self.position])["k"])
            else:
                while self.text[self.position] not in " \t.=]":
                    self.position += 1
                parts.append(self.text[start : self.position])
            self._skip(newlines=False)
            if self.text[self.position] != ".":
                return parts
            self.position += 1

    def _value(self, where: KeyPath) -> None:
        self._skip(newlines=False)
        first = self.text[self.position]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(where)
        elif first == "{":
            self._inline_table(where)
        else:
            while self.position < len(self.text) and self.text[self.position] not in ",]}#\n":
                self.position += 1

    def _array(self, where: KeyPath) -> None:
        self.position += 1
        index = 0
        while True:
            self._skip(newlines=True)
            if self.text[self.position] == "]":
                self.position += 1
                return
            if self.text[self.position] == ",":
                self.position += 1
                continue
            self.lines.setdefault((*where, index), self._line())
            self._value((*where, index))
            index += 1

    def _inline_table(self, where: KeyPath) -> None:
        self.position += 1
        while True:
            self._skip(newlines=True)
            if self.text[self.position] == "}":
                self.position += 1
                return
            if self.text[self.position] == ",":
                self.position += 1
                continue
            self._pair(where)

    def _string(self) -> None:
        quote = self.text[self.position]
        if self.text.startswith(quote * 3, self.position):
            self.position += 3
            self._to_closing(quote * 3)
            # Up to two quotes may precede the closing three.
            while self.position < len(self.text) and self.text[self.position] == quote:
                self.position += 1
        else:
            self.position += 1
            self._to_closing(quote)

    def _to_closing(self, closing: str) -> None:
        while not self.text.startswith(closing, self.position):
            self.position += 2 if self.text[self.position] == "\\" and closing[0] == '"' else 1
        self.position += len(closing)
