"""A small declarative validator: a section of a job file is a frozen dataclass whose fields name their *readers*.

A reader converts a raw value or notes a problem. One run shows all problems with line, path and closest valid name.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopSection(Section):
        n: int = setting(integer(1))
"""

from __future__ import annotations

import dataclasses
import difflib
import posixpath
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, ClassVar, NoReturn, TypeVar

from panestream.errors import InvalidDurationError, JobError, did_you_mean
from panestream.jobs.document import Document, KeyPath
from panestream.jobs.sql import beyond_row
from panestream.windowing.time import to_micros

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
            self.problems.append(
                (2**31, f"{self.document.path}: more than {MAX_PROBLEMS} problems, of which these are the first")
            )
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


def _listed(names: Iterable[str]) -> str:
    """Return the end of a noun, and quoted names with ``and`` before the last one."""
    *others, last = map(repr, names)
    return f"s {', '.join(others)} and {last}" if others else f" {last}"


def kind(value: object) -> str:
    """Return the TOML name of a value's type."""
    if value is None:
        return "nothing"
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A function that returns the value for a raw value, or notes a problem and raises :class:`InvalidValue`.

    Attributes:
        read: the function.
        words: the allowed values, for the list of all keys (docs/reference/job-files.md).
        shape: JSON Schema for editors, with ``{"$ref": cls}`` for a section. It may be wider than the function but never
            narrower: an editor must not mark valid values as errors.
    """

    read: Callable[[Any, DocumentPlace], Any]
    words: str
    shape: Mapping[str, Any]

    def __call__(self, value: object, place: DocumentPlace) -> Any:
        return self.read(value, place)


def reads(words: str, shape: Mapping[str, Any]) -> Callable[[Callable[[Any, DocumentPlace], Any]], Reader]:
    """Return a decorator that makes a function a :class:`Reader`."""
    return lambda read: Reader(read, words, shape)


def setting(reader: Reader, default: Any = dataclasses.MISSING) -> Any:
    """Return the field of a section for a key, which is required if it has no default."""
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"reader": reader})
    return field(default=default, metadata={"reader": reader})


class Section:
    """A table of a job file. Subclasses are frozen dataclasses with a :func:`setting` for each key, and override what they need.

    If the value of the key ``kind_key`` decides which other keys are allowed, ``kinds`` lists these for each of its values:
    ``"size! offset"`` means that ``size`` is required. Keys that no kind lists are allowed for all.
    """

    __slots__ = ()
    kind_key: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, str]] = {}
    kind_shapes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The JSON Schema of keys that a kind restricts further."""
    hints: ClassVar[Mapping[tuple[str, str], str]] = {}
    """Errors for (kind, key), if the key is missing or not allowed."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Errors for keys of other sections."""

    @classmethod
    def fields(cls) -> tuple[dataclasses.Field[Any], ...]:
        """Return the fields, one for each key."""
        return dataclasses.fields(cls)  # type: ignore[arg-type]

    @classmethod
    @cache
    def keys_of(cls, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the required and the optional keys of a kind."""
        names = cls.kinds[kind].split()
        return tuple(name[:-1] for name in names if name.endswith("!")), tuple(name for name in names if not name.endswith("!"))

    @classmethod
    @cache
    def kinds_with(cls, name: str) -> tuple[str, ...]:
        """Return the kinds that have a key."""
        return tuple(kind for kind in cls.kinds if any(name in names for names in cls.keys_of(kind)))

    @staticmethod
    def needs(given: Mapping[str, Any]) -> Mapping[str, str]:  # noqa: ARG004 - for subclasses
        """Return the keys that are required because of others, with an error for each, or "" for the usual one."""
        return {}

    def check(self, place: DocumentPlace) -> None:
        """Note problems that concern several keys."""

    def check_library(self, place: DocumentPlace) -> None:
        """Note what the library refuses, once the keys are right."""


S = TypeVar("S", bound=Section)


def section(cls: type[S]) -> Reader:
    """Return the reader of a table that becomes a ``cls``; it notes all unknown, missing and refused keys."""

    @reads("table", {"$ref": cls})
    def read(value: object, place: DocumentPlace) -> S:
        fields = {each.name: each for each in cls.fields()}
        given: Mapping[Any, Any] = expect(Mapping, "a table", value, place)
        kind = given.get(cls.kind_key)
        if not isinstance(kind, str) or kind not in cls.kinds:
            kind = ""
        allowed = [name for name in fields if not kind or kind in (cls.kinds_with(name) or (kind,))]
        known = {}
        with all_noted(place):
            for name, raw in given.items():
                at = place.at(str(name))
                if name not in fields:
                    at.note(cls.elsewhere.get(name) or f"unknown key; {did_you_mean(str(name), allowed)}")
                elif name not in allowed and raw not in (fields[name].default, {}):
                    at.note(
                        cls.hints.get((kind, name)) or f"is for {cls.kind_key}{_listed(cls.kinds_with(name))}, not for {kind!r}"
                    )
                else:
                    with suppress(InvalidValue):
                        known[name] = fields[name].metadata["reader"](raw, at)
            _check_missing(cls, fields, given, kind, place)
        result = cls(**known)
        with all_noted(place):
            result.check(place)
        with all_noted(place):
            result.check_library(place)
        return result

    return read


def _check_missing(
    cls: type[Section], fields: Mapping[str, Any], given: Mapping[Any, Any], kind: str, place: DocumentPlace
) -> None:
    # A misspelled key is not reported as missing, too, and neither are the keys that would be needed without it.
    meant = {near for name in given if name not in fields for near in difflib.get_close_matches(str(name), fields, n=1)}
    needed = dict(cls.needs({**{name: {} for name in meant}, **given}))
    for name in cls.keys_of(kind)[0] if kind else ():
        if name not in meant:
            needed[name] = cls.hints.get((kind, name)) or f"{name!r} is missing: {cls.kind_key} {kind!r} needs it"
    for name, each in fields.items():
        if name not in given and (is_required(each) or name in needed):
            kinds = f": one of {', '.join(sorted(cls.kinds))}" if name == cls.kind_key else ""
            place.note(needed.get(name) or f"{name!r} is missing{kinds}")


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Return whether a key has no default."""
    return field.default is field.default_factory is dataclasses.MISSING


def expect(type_: Any, words: str, value: Any, place: DocumentPlace) -> Any:
    """Return a value of a type; for another one, note a problem with ``words`` for the type."""
    if not isinstance(value, type_) or (isinstance(value, bool) and type_ is not bool):
        place.wrong(f"must be {words}, not {kind(value)}: {shown(value)}")
    return value


_TEXT = {"type": "string", "pattern": r"\S"}
_DURATION = {"type": "string", "pattern": r"\d\s*[A-Za-z]"}


@reads("string", _TEXT)
def text(value: object, place: DocumentPlace) -> str:
    """Read a string that is not blank, without control characters."""
    word: str = expect(str, "a string", value, place)
    if not word.strip():
        place.wrong("is empty")
    if CONTROL.search(word):
        place.wrong(f"has control characters: {shown(word)}")
    return word


@reads("SQL", _TEXT)
def sql(value: object, place: DocumentPlace) -> str:
    """Read a SQL expression over the columns of a row; it may span lines."""
    expression: str = expect(str, "a SQL expression in a string", value, place)
    text(re.sub(r"[\n\r\t]", " ", expression), place)
    return _of_row(expression.strip(), place)


@reads("string", _TEXT)
def column(value: object, place: DocumentPlace) -> str:
    """Read any column name, or a SQL expression over the columns of a row."""
    return _of_row(text(value, place), place)


def _of_row(word: str, place: DocumentPlace) -> str:
    # A single word in any script is neither a call nor a query.
    why = None if word.isidentifier() else beyond_row(word)
    if why is not None:
        place.wrong(why)
    return word


@reads("string", _TEXT)
def pattern(value: object, place: DocumentPlace) -> str:
    """Read a text that becomes a string in SQL."""
    word: str = text(value, place)
    if "${" in word:
        place.wrong(f"Spark puts settings and environment variables in the place of ${{...}}: {shown(word)}")
    return word


def name_like(pattern: re.Pattern[str], words: str, what: str) -> Reader:
    """Return a reader of names; ``words`` describe the pattern in the list of all keys, ``what`` describes it in errors."""

    @reads(words, {"type": "string", "pattern": f"^({pattern.pattern.replace(_WORD, _PLAIN_WORD)})$"})
    def read(value: object, place: DocumentPlace) -> str:
        word: str = text(value, place)
        if not pattern.fullmatch(word):
            place.wrong(f"must be {what}, not {shown(word)}")
        return word

    return read


identifier = name_like(_NAME, "name", "a name of letters, digits and underscores that does not begin with a digit")


def undisclosed(reader: Reader, what: str) -> Reader:
    """Return a reader whose errors describe the value as ``what`` and do not show it, because a password may be in it."""

    @reads(reader.words, reader.shape)
    def read(value: object, place: DocumentPlace) -> Any:
        try:
            return reader(value, DocumentPlace(place.document, place.where))
        except InvalidValue:
            place.wrong(f"must be {what}")

    return read


table_name = name_like(_TABLE_NAME, "table, db.table or catalog.db.table", "table, db.table or catalog.db.table in plain names")


@reads("path", _TEXT)
def location(value: object, place: DocumentPlace) -> str:
    """Read a path, relative to the folder of the job file; paths with a scheme (``s3://``) stay unchanged.

    Relative paths must stay in that folder, so that the job file shows every other place. ``~`` differs for each user.
    """
    word: str = text(value, place)
    if _SCHEME.match(word):
        return word
    if ":" in word.split("/", maxsplit=1)[0]:
        place.wrong(f"is neither an address nor a path: {shown(word)}. An address has a slash behind its colon, 'file:/data/out'")
    if word.startswith("~"):
        place.wrong(
            f"begins with a tilde: {shown(word)}. Write the home folder in full, as an absolute path; a folder of that name is "
            f"{shown('./' + word)}"
        )
    if posixpath.normpath(word).split("/")[0] == "..":
        place.wrong(
            f"leaves the folder of the job file: {shown(word)}. Write an absolute path or an address, or give it at the start: "
            f"--input (for jobs with one source), --output"
        )
    try:
        # resolve() follows links, so messages and checkpoints show the real places.
        return str((place.document.path.parent / word).resolve())
    except (RuntimeError, OSError, ValueError) as error:
        place.wrong(f"is not a usable path: {error}")


def is_local(path: str) -> bool:
    """Return whether a path from :func:`location` is on this machine."""
    return not _SCHEME.match(path)


@reads("true or false", {"type": "boolean"})
def boolean(value: object, place: DocumentPlace) -> bool:
    """Read a boolean; words such as "yes" are refused."""
    return bool(expect(bool, "true or false", value, place))


def integer(least: int) -> Reader:
    """Return a reader of integers from ``least`` on."""

    @reads(f"integer, at least {least}", {"type": "integer", "minimum": least, "maximum": 2**31 - 1})
    def read(value: object, place: DocumentPlace) -> int:
        number: int = expect(int, "an integer", value, place)
        if number < least:
            place.wrong(f"must be at least {least}, not {shown(number)}")
        if number >= 2**31:
            place.wrong(f"{shown(number)} is too large")
        return number

    return read


number = Reader(partial(expect, int | float, "a number"), "number", {"type": "number"})


def choice(*allowed: str, explain: Callable[[str], str | None] | None = None) -> Reader:
    """Return a reader of a few words. The error for another word comes from ``explain``, or names the closest word."""

    @reads(", ".join(f'"{each}"' for each in allowed), {"enum": list(allowed)})
    def read(value: object, place: DocumentPlace) -> str:
        word: str = text(value, place)
        if word not in allowed:
            place.wrong(f"{shown(word)} {(explain and explain(word)) or 'is not known; ' + did_you_mean(word, allowed)}")
        return word

    return read


def duration(*, negative: bool = False, zero: bool = True) -> Reader:
    """Return a reader of durations such as ``"90 seconds"``; they stay text, so that plans show the user's wording."""

    @reads("duration" if zero else "duration, not 0", _DURATION)
    def read(value: object, place: DocumentPlace) -> str:
        if not isinstance(value, str):
            place.wrong(f"must be a string such as '90 seconds', not {shown(value)}")
        word: str = text(value, place)
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
    one = reader.shape
    many = {"type": "array", "items": one}

    @reads(f"array of {reader.words}", {"anyOf": [one, many]} if one.get("type") == "string" else many)
    def read(value: object, place: DocumentPlace) -> tuple[Any, ...]:
        if isinstance(value, str):
            return (reader(value, place),)
        items = []
        with all_noted(place):
            for index, each in enumerate(expect(list, "an array", value, place)):
                with suppress(InvalidValue):
                    items.append(reader(each, place.at(index)))
        return tuple(items)

    return read


def table(keys: Reader, values: Reader) -> Reader:
    """Return a reader of tables with free keys, in the order of the file."""

    @reads(
        f"table: {keys.words} = {values.words}",
        {"type": "object", "propertyNames": keys.shape, "additionalProperties": values.shape},
    )
    def read(value: object, place: DocumentPlace) -> dict[str, Any]:
        items = {}
        with all_noted(place):
            for each, raw in expect(Mapping, "a table", value, place).items():
                with suppress(InvalidValue):
                    items[keys(each, place.at(str(each)))] = values(raw, place.at(str(each)))
        return items

    return read


_SCALAR = {"type": ["string", "number", "boolean"]}


@reads("string, number or boolean", _SCALAR)
def scalar(value: object, place: DocumentPlace) -> str:
    """Read a string, number or boolean as the text of a Spark option."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    word: str = expect(str, "a string, a number or a boolean", value, place)
    # The separator of CSV files may be a tab; other control characters are mistakes.
    if CONTROL.search(word.replace("\t", " ")):
        place.wrong(f"has control characters: {shown(word)}")
    return word


@reads("string", _TEXT)
def option(value: object, place: DocumentPlace) -> str:
    """Read the name of an option; "path" is refused because sections have a key for it."""
    word: str = text(value, place)
    if word.strip().lower() in ("path", "paths"):
        place.wrong("is not an option. Set 'path' in this section instead")
    return word


spark_options = table(option, scalar)


class SectionSettings:
    """The JSON Schema of settings by name, optionally nested at their dots."""

    shape: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": {"anyOf": [_SCALAR, {"$ref": "#/definitions/SectionSettings"}]},
    }


@reads("table of settings that begin with spark.", {"$ref": SectionSettings})
def spark_settings(value: object, place: DocumentPlace) -> dict[str, str]:
    """Read settings with dotted names: ``a.b = 1`` (nested in TOML) equals ``"spark.a.b" = 1``."""
    items: dict[str, str] = {}

    def walk(inside: Mapping[str, object], at: DocumentPlace, path: str) -> None:
        for each, raw in inside.items():
            name, there = f"{path}.{each}" if path else str(each), at.at(str(each))
            if isinstance(raw, Mapping):
                walk(raw, there, name)
                continue
            with suppress(InvalidValue):
                items[text(name if name.startswith("spark.") else f"spark.{name}", there)] = scalar(raw, there)

    with all_noted(place):
        walk(expect(Mapping, "a table", value, place), place, "")
    return items


@reads(
    'SQL types: "a BIGINT, b STRING", or a table of column = type',
    {"anyOf": [_TEXT, {"type": "object", "minProperties": 1, "propertyNames": _TEXT, "additionalProperties": _TEXT}]},
)
def ddl(value: object, place: DocumentPlace) -> str:
    """Read a DDL string, or a table of column = type, as a DDL string."""
    if isinstance(value, str):
        return str(sql(value, place))
    columns = table(text, text)(value, place)
    if not columns:
        place.wrong("has no columns")
    return _of_row(", ".join(f"`{name.replace('`', '``')}` {kind_of}" for name, kind_of in columns.items()), place)


@reads("duration, or a number of rows", {"anyOf": [_DURATION, integer(1).shape]})
def extent(value: object, place: DocumentPlace) -> str | int:
    """Read the size of a window: a duration, or a number of rows for count windows."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(integer(1)(value, place))
    return str(duration(zero=False)(value, place))
