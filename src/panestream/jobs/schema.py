"""A small declarative validator: a section of a job file is a frozen dataclass whose fields name their *readers*.

A reader converts a raw value or notes a problem. One run shows all problems with line, path and closest valid name.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Top:
        n: int = field(metadata=reads(integer(1)))
"""

from __future__ import annotations

import dataclasses
import difflib
import posixpath
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeVar

from panestream.errors import InvalidDurationError, JobError, did_you_mean
from panestream.jobs.document import Document, KeyPath
from panestream.jobs.expressions import beyond_row
from panestream.windowing.time import to_micros

T = TypeVar("T")

# Names and paths must not contain C0 and C1 controls, line and paragraph separators, or marks that reorder text.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
MAX_PROBLEMS = 100
"""The search for the closest valid name costs time for each problem, and nobody reads more."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}", re.ASCII)
_WORD, _PLAIN_WORD = r"\w", "[A-Za-z0-9_]"
"""A word character in a Python pattern with ``re.ASCII``, and in a pattern for any editor."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class InvalidValue(Exception):  # noqa: N818 - a signal inside this package, no error anybody sees
    """Signal that a value was refused and its problem noted; it never leaves this package."""


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """The position of a reader in the file; all places of a file share the problems, as (line, message)."""

    document: Document
    where: KeyPath = ()
    problems: list[tuple[int, str]] = field(default_factory=list)

    def at(self, *names: str | int) -> DocumentPlace:
        return DocumentPlace(self.document, (*self.where, *names), self.problems)

    def note(self, message: str) -> None:
        """Record a problem at this place and return."""
        line = self.document.line_of(self.where)
        if len(self.problems) == MAX_PROBLEMS:
            self.problems.append((2**31, f"{self.document.path}: more than {MAX_PROBLEMS} problems, the rest is not shown"))
            self.finish()
        prefix = f"{self.document.path}:{line}" if line else f"{self.document.path}"
        path = path_text(self.where)
        self.problems.append((line or 0, f"{prefix}: {path}: {message}" if path else f"{prefix}: {message}"))

    def wrong(self, message: str) -> NoReturn:
        """Record a problem at this place and raise :class:`InvalidValue`."""
        self.note(message)
        raise InvalidValue

    def finish(self) -> None:
        """Raise a ``JobError`` with all problems in the order of the file, if there are any."""
        if self.problems:
            raise JobError("\n".join(message for _, message in sorted(self.problems, key=lambda problem: problem[0])))


@contextmanager
def all_noted(place: DocumentPlace) -> Generator[None]:
    """Raise :class:`InvalidValue` at the end of the block if it noted a problem: readers of several values report them all."""
    before = len(place.problems)
    yield
    if len(place.problems) > before:
        raise InvalidValue


Reader = Callable[[object, DocumentPlace], Any]
R = TypeVar("R", bound=Reader)


def path_text(where: KeyPath) -> str:
    """Return a path as errors show it.

    >>> path_text(("aggregate", 0, "function"))
    'aggregate[0].function'
    """
    text = ""
    for part in where:
        name = visible(str(part))
        text += f"[{part}]" if isinstance(part, int) else f".{name}" if text else name
    return text


def visible(text: str) -> str:
    r"""Escape the control characters of a text except newlines, so that a terminal does not act on them.

    >>> print(visible("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else found[0].encode("unicode_escape").decode(), text)


def shown(value: object) -> str:
    """Return a value as errors show it: in one line of at most 60 characters."""
    text = "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def kind(value: object) -> str:
    """Return the TOML name of a value's type."""
    if value is None:
        return "nothing"
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def reads(reader: Reader) -> dict[str, Reader]:
    """Return the metadata of a field with this reader."""
    return {"reader": reader}


_WANTS: dict[Reader, str] = {}
_ACCEPTS: dict[Reader, Mapping[str, Any]] = {}


def wanting(words: str, accepts: Mapping[str, Any]) -> Callable[[R], R]:
    """Describe the values of a reader.

    Args:
        words: for the list of all keys (docs/reference/job-files.md).
        accepts: JSON Schema for editors, with ``{"$ref": cls}`` for a section. It may be wider than the reader but never
            narrower: an editor must not mark valid values as errors.
    """

    def note(reader: R) -> R:
        _WANTS[reader] = words
        _ACCEPTS[reader] = accepts
        return reader

    return note


def wants(reader: Reader) -> str:
    """Return the words from :func:`wanting`."""
    return _WANTS[reader]


def accepted(reader: Reader) -> Mapping[str, Any]:
    """Return the JSON Schema from :func:`wanting`."""
    return _ACCEPTS[reader]


def section(cls: type[T]) -> Callable[[object, DocumentPlace], T]:
    """Return the reader of a table that becomes a ``cls``; it notes all unknown, missing and refused keys.

    Keys without a default are required, and so are the keys that the optional ``cls.needs(value)`` returns. The optional
    ``cls.check(place)`` runs last, for problems that concern several values.
    """

    @wanting("table", {"$ref": cls})
    def read(value: object, place: DocumentPlace) -> T:
        fields = {each.name: each for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
        value, known = _mapping(value, place), {}
        with all_noted(place):
            for name, raw in value.items():
                if name not in fields:
                    place.at(str(name)).note(_unknown(cls, str(name), fields))
                    continue
                with suppress(InvalidValue):
                    known[name] = fields[name].metadata["reader"](raw, place.at(name))
            needs = getattr(cls, "needs", None)
            # A misspelled key is not reported as missing, too, and neither are the keys that would be needed without it.
            meant = {near for name in value if name not in fields for near in difflib.get_close_matches(str(name), fields, n=1)}
            needed = needs({**{name: {} for name in meant}, **value}) if needs else ()
            for name, each in fields.items():
                required = each.default is each.default_factory is dataclasses.MISSING or name in needed
                if name not in value and required:
                    place.note(_missing(cls, name, value))
        result = cls(**known)
        check = getattr(result, "check", None)
        if check is not None:
            with all_noted(place):
                check(place)
        return result

    return read


def _mapping(value: object, place: DocumentPlace) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        place.wrong(f"must be a table, not {kind(value)}: {shown(value)}")
    return value


def _missing(cls: type, name: str, given: Mapping[Any, Any]) -> str:
    explain = getattr(cls, "explain_missing", None)
    return (explain(name, given) if explain else None) or f"{name!r} is missing"


def _unknown(cls: type, name: str, fields: Mapping[str, Any]) -> str:
    explain = getattr(cls, "explain_unknown", None)
    return (explain(name) if explain else None) or f"unknown key; {did_you_mean(name, fields)}"


_TEXT = {"type": "string", "pattern": r"\S"}
_DURATION = {"type": "string", "pattern": r"\d\s*[A-Za-z]"}


@wanting("string", _TEXT)
def text(value: object, place: DocumentPlace) -> str:
    """Read a string that is not blank, without control characters."""
    if not isinstance(value, str):
        place.wrong(f"must be a string, not {kind(value)}: {shown(value)}")
    if not value.strip():
        place.wrong("is empty")
    if CONTROL.search(value):
        place.wrong(f"has control characters: {shown(value)}")
    return value


@wanting("SQL", _TEXT)
def sql(value: object, place: DocumentPlace) -> str:
    """Read a SQL expression over the columns of a row; it may span lines."""
    if not isinstance(value, str):
        place.wrong(f"must be a SQL expression in a string, not {kind(value)}: {shown(value)}")
    text(re.sub(r"[\n\r\t]", " ", value), place)
    return _of_row(value.strip(), place)


@wanting("string", _TEXT)
def column(value: object, place: DocumentPlace) -> str:
    """Read any column name, or a SQL expression over the columns of a row."""
    return _of_row(text(value, place), place)


def _of_row(word: str, place: DocumentPlace) -> str:
    # A single word in any script is neither a call nor a query.
    why = None if word.isidentifier() else beyond_row(word)
    if why is not None:
        place.wrong(why)
    return word


@wanting("string", _TEXT)
def pattern(value: object, place: DocumentPlace) -> str:
    """Read a text that becomes a string in SQL."""
    word = text(value, place)
    if "${" in word:
        place.wrong(f"Spark puts settings and environment variables in the place of ${{...}}: {shown(word)}")
    return word


def name_like(pattern: re.Pattern[str], words: str, what: str) -> Reader:
    """Return a reader of names; ``words`` describe the pattern in the list of all keys, ``what`` describes it in errors."""

    @wanting(words, {"type": "string", "pattern": f"^({pattern.pattern.replace(_WORD, _PLAIN_WORD)})$"})
    def read(value: object, place: DocumentPlace) -> str:
        word = text(value, place)
        if not pattern.fullmatch(word):
            place.wrong(f"must be {what}, not {shown(word)}")
        return word

    return read


identifier = name_like(_NAME, "name", "a name of letters, digits and underscores that does not begin with a digit")

table_name = name_like(_TABLE_NAME, "table, db.table or catalog.db.table", "table, db.table or catalog.db.table in plain names")


@wanting("path", _TEXT)
def location(value: object, place: DocumentPlace) -> str:
    """Read a path, relative to the folder of the job file; paths with a scheme (``s3://``) stay unchanged.

    Relative paths must stay in that folder, so that the job file shows every other place. ``~`` differs for each user.
    """
    word = text(value, place)
    if _SCHEME.match(word):
        return word
    if ":" in word.split("/")[0]:
        place.wrong(f"is neither an address nor a path: {shown(word)}. An address has a slash behind its colon, 'file:/data/out'")
    if word.startswith("~"):
        place.wrong(
            f"begins with a tilde: {shown(word)}. Write the home folder in full, as an absolute path; a folder of that name is "
            f"{shown('./' + word)}"
        )
    if posixpath.normpath(word).split("/")[0] == "..":
        place.wrong(
            f"leaves the folder of the job file, where paths begin: {shown(word)}. Write where it is, as an absolute path "
            "or an address, or say it at the start: --input (of a job of one source), --output"
        )
    try:
        # resolve() follows links, so messages and checkpoints show the real places.
        return str((place.document.path.parent / word).resolve())
    except (RuntimeError, OSError, ValueError) as error:
        place.wrong(f"is not a usable path: {error}")


def is_local(path: str) -> bool:
    """Return whether a path from :func:`location` is on this machine."""
    return not _SCHEME.match(path)


@wanting("true or false", {"type": "boolean"})
def boolean(value: object, place: DocumentPlace) -> bool:
    """Read a boolean; words such as "yes" are refused."""
    if not isinstance(value, bool):
        place.wrong(f"must be true or false, not {kind(value)}: {shown(value)}")
    return value


def integer(least: int) -> Reader:
    """Return a reader of integers from ``least`` on."""

    @wanting(f"integer, at least {least}", {"type": "integer", "minimum": least, "maximum": 2**31 - 1})
    def read(value: object, place: DocumentPlace) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            place.wrong(f"must be an integer, not {kind(value)}: {shown(value)}")
        if value < least:
            place.wrong(f"must be at least {least}, not {shown(value)}")
        if value >= 2**31:
            place.wrong(f"{shown(value)} is too large")
        return value

    return read


@wanting("number", {"type": "number"})
def number(value: object, place: DocumentPlace) -> float:
    """Read an integer or a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        place.wrong(f"must be a number, not {kind(value)}: {shown(value)}")
    return value


def choice(*allowed: str, explain: Callable[[str], str | None] | None = None) -> Reader:
    """Return a reader of a few words. The error for another word comes from ``explain``, or names the closest word."""

    @wanting(", ".join(f'"{each}"' for each in allowed), {"enum": list(allowed)})
    def read(value: object, place: DocumentPlace) -> str:
        word = text(value, place)
        if word not in allowed:
            place.wrong(f"{shown(word)} {(explain and explain(word)) or 'is not known; ' + did_you_mean(word, allowed)}")
        return word

    return read


def duration(*, negative: bool = False, zero: bool = True) -> Reader:
    """Return a reader of durations such as ``"90 seconds"``; they stay text, so that plans show the user's wording."""

    @wanting("duration" if zero else "duration, not 0", _DURATION)
    def read(value: object, place: DocumentPlace) -> str:
        if not isinstance(value, str):
            place.wrong(f"must be a string such as '90 seconds', not {shown(value)}")
        word = text(value, place)
        try:
            micros = to_micros(word, "the duration")
        except InvalidDurationError as error:
            place.wrong(str(error))
        if (micros < 0 and not negative) or (micros == 0 and not zero):
            place.wrong(f"must {'not be negative' if zero else 'be positive'}, not {word!r}")
        return word

    return read


def array(reader: Reader) -> Reader:
    """Return a reader of arrays; a single string counts as an array of one element."""
    one = accepted(reader)
    many = {"type": "array", "items": one}

    @wanting(f"array of {wants(reader)}", {"anyOf": [one, many]} if one.get("type") == "string" else many)
    def read(value: object, place: DocumentPlace) -> tuple[Any, ...]:
        if isinstance(value, str):
            return (reader(value, place),)
        if not isinstance(value, list):
            place.wrong(f"must be an array, not {kind(value)}: {shown(value)}")
        items = []
        with all_noted(place):
            for index, each in enumerate(value):
                with suppress(InvalidValue):
                    items.append(reader(each, place.at(index)))
        return tuple(items)

    return read


def table(keys: Reader, values: Reader) -> Reader:
    """Return a reader of tables with free keys, in the order of the file."""

    @wanting(
        f"table: {wants(keys)} = {wants(values)}",
        {"type": "object", "propertyNames": accepted(keys), "additionalProperties": accepted(values)},
    )
    def read(value: object, place: DocumentPlace) -> dict[str, Any]:
        items = {}
        with all_noted(place):
            for each, raw in _mapping(value, place).items():
                with suppress(InvalidValue):
                    items[keys(each, place.at(str(each)))] = values(raw, place.at(str(each)))
        return items

    return read


_SCALAR = {"type": ["string", "number", "boolean"]}


@wanting("string, number or boolean", _SCALAR)
def scalar(value: object, place: DocumentPlace) -> str:
    """Read a string, number or boolean as the text of a Spark option."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        place.wrong(f"must be a string, a number or a boolean, not {kind(value)}: {shown(value)}")
    # The separator of CSV files may be a tab; other control characters are mistakes.
    if CONTROL.search(value.replace("\t", " ")):
        place.wrong(f"has control characters: {shown(value)}")
    return value


@wanting("string", _TEXT)
def option(value: object, place: DocumentPlace) -> str:
    """Read the name of an option; "path" is refused because sections have a key for it."""
    word = text(value, place)
    if word.strip().lower() in ("path", "paths"):
        place.wrong("is no option here: where something is says the key 'path' of the section")
    return word


spark_options = table(option, scalar)


class SectionSettings:
    """The JSON Schema of settings by name, optionally nested at their dots."""

    accepts: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": {"anyOf": [_SCALAR, {"$ref": "#/definitions/SectionSettings"}]},
    }


def flat(prefix: str) -> Reader:
    """Return a reader of settings with dotted names: ``a.b = 1`` (nested in TOML) equals ``"a.b" = 1``."""

    @wanting(f"table of settings that begin with {prefix}.", {"$ref": SectionSettings})
    def read(value: object, place: DocumentPlace) -> dict[str, str]:
        items: dict[str, str] = {}

        def walk(inside: Mapping[str, object], at: DocumentPlace, path: str) -> None:
            for each, raw in inside.items():
                name = f"{path}.{each}" if path else str(each)
                if isinstance(raw, Mapping):
                    walk(raw, at.at(str(each)), name)
                    continue
                full = name if name.startswith(prefix + ".") else f"{prefix}.{name}"
                with suppress(InvalidValue):
                    items[text(full, at.at(str(each)))] = scalar(raw, at.at(str(each)))

        with all_noted(place):
            walk(_mapping(value, place), place, "")
        return items

    return read


@wanting(
    'SQL types: "a BIGINT, b STRING", or a table of column = type',
    {"anyOf": [_TEXT, {"type": "object", "minProperties": 1, "propertyNames": _TEXT, "additionalProperties": _TEXT}]},
)
def ddl(value: object, place: DocumentPlace) -> str:
    """Read a DDL string, or a table of column = type, as a DDL string."""
    if isinstance(value, str):
        return sql(value, place)
    columns = table(text, text)(value, place)
    if not columns:
        place.wrong("has no columns")
    return _of_row(", ".join(f"`{name.replace('`', '``')}` {kind_of}" for name, kind_of in columns.items()), place)


@wanting("duration, or a number of rows", {"anyOf": [_DURATION, accepted(integer(1))]})
def extent(value: object, place: DocumentPlace) -> str | int:
    """Read the size of a window: a duration, or a number of rows for count windows."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(integer(1)(value, place))
    return str(duration(zero=False)(value, place))
