"""A small declarative validator: dataclasses whose fields say how their value is read.

A section of a job file is a frozen dataclass; each field names a *reader* in its metadata, which turns the raw value into
the wanted one or says what is wrong with it. All problems of a file are collected, so that one run shows them all, each with
its line, its path and the nearest right name.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Top:
        n: int = field(metadata=reads(integer(1)))
        by: str = field(metadata=reads(text))
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

# C0 and C1 controls, line and paragraph separators, and the marks that reorder text: none belongs in a name or a path.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
MAX_PROBLEMS = 100
"""Each costs the search for the nearest right name, and nobody reads more."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}", re.ASCII)
_WORD, _PLAIN_WORD = r"\w", "[A-Za-z0-9_]"
"""As Python writes it of ASCII, and as every editor reads it."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class InvalidValue(Exception):  # noqa: N818 - a signal inside this package, no error anybody sees
    """A value was refused and the problem is noted already. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the file a reader is, and where it reports problems to.

    Attributes:
        document: the file.
        where: the path of the value.
        problems: what was found so far, as (line, message); shared by all places of a file.
    """

    document: Document
    where: KeyPath = ()
    problems: list[tuple[int, str]] = field(default_factory=list)

    def at(self, *names: str | int) -> Place:
        """The place of something inside this one."""
        return Place(self.document, (*self.where, *names), self.problems)

    def note(self, message: str) -> None:
        """Notes a problem here and goes on."""
        line = self.document.line_of(self.where)
        if len(self.problems) == MAX_PROBLEMS:
            self.problems.append((2**31, f"{self.document.path}: more than {MAX_PROBLEMS} problems, the rest is not shown"))
            self.finish()
        prefix = f"{self.document.path}:{line}" if line else f"{self.document.path}"
        path = path_text(self.where)
        self.problems.append((line or 0, f"{prefix}: {path}: {message}" if path else f"{prefix}: {message}"))

    def wrong(self, message: str) -> NoReturn:
        """Notes a problem here and gives the value up."""
        self.note(message)
        raise InvalidValue

    def finish(self) -> None:
        """Raises what was noted, in the order of the file.

        Raises:
            JobError: something was.
        """
        if self.problems:
            raise JobError("\n".join(message for _, message in sorted(self.problems, key=lambda problem: problem[0])))


@contextmanager
def all_noted(place: Place) -> Generator[None]:
    """For what reads several values: goes through all of them, and gives up at the end where a problem was noted.

    Raises:
        InvalidValue: one was.
    """
    before = len(place.problems)
    yield
    if len(place.problems) > before:
        raise InvalidValue


Reader = Callable[[object, Place], Any]
R = TypeVar("R", bound=Reader)


def path_text(where: KeyPath) -> str:
    """A path as errors show it.

    >>> path_text(("aggregate", 0, "function"))
    'aggregate[0].function'
    """
    text = ""
    for part in where:
        name = visible(str(part))
        text += f"[{part}]" if isinstance(part, int) else f".{name}" if text else name
    return text


def visible(text: str) -> str:
    r"""Return a text with its control characters, other than the ends of lines, as numbers: they do nothing to a terminal.

    >>> print(visible("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else found[0].encode("unicode_escape").decode(), text)


def shown(value: object) -> str:
    """A value as errors show it: in one line, not too long."""
    text = "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def kind(value: object) -> str:
    """What TOML calls the type of ``value``."""
    if value is None:
        return "nothing"
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def reads(reader: Reader) -> dict[str, Reader]:
    """The metadata of a field of a section: ``reader`` reads its value."""
    return {"reader": reader}


_WANTS: dict[Reader, str] = {}
_ACCEPTS: dict[Reader, Mapping[str, Any]] = {}


def wanting(words: str, accepts: Mapping[str, Any]) -> Callable[[R], R]:
    """Says what a reader reads: in a few words, for the list of all keys (docs/reference/job-files.md), and for editors.

    Args:
        words: for people.
        accepts: as JSON Schema. It may be wider than the reader and must not be narrower: an editor that marks what is right
            is worse than one that says nothing. ``{"$ref": cls}`` stands for a section.
    """

    def note(reader: R) -> R:
        _WANTS[reader] = words
        _ACCEPTS[reader] = accepts
        return reader

    return note


def wants(reader: Reader) -> str:
    """What :func:`wanting` said of a reader."""
    return _WANTS[reader]


def accepted(reader: Reader) -> Mapping[str, Any]:
    """What :func:`wanting` said for editors."""
    return _ACCEPTS[reader]


def section(cls: type[T]) -> Callable[[object, Place], T]:
    """The reader of a table that becomes a ``cls``.

    Unknown keys, missing keys and refused values are noted, all of them. Keys without a default must be there; so must those
    that ``cls.needs(value)``, if there is one, finds necessary beside the others. Afterwards ``cls.check(place)``, if there is
    one, may note what only shows when the values are seen together.
    """

    @wanting("table", {"$ref": cls})
    def read(value: object, place: Place) -> T:
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
            # What is misspelled is not missing as well: nor is what would only be needed without it.
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


def _mapping(value: object, place: Place) -> Mapping[Any, Any]:
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
def text(value: object, place: Place) -> str:
    """A string that is not blank and has no control characters."""
    if not isinstance(value, str):
        place.wrong(f"must be a string, not {kind(value)}: {shown(value)}")
    if not value.strip():
        place.wrong("is empty")
    if CONTROL.search(value):
        place.wrong(f"has control characters: {shown(value)}")
    return value


@wanting("SQL", _TEXT)
def sql(value: object, place: Place) -> str:
    """A SQL expression over the columns of a row: text that may span lines."""
    if not isinstance(value, str):
        place.wrong(f"must be a SQL expression in a string, not {kind(value)}: {shown(value)}")
    text(re.sub(r"[\n\r\t]", " ", value), place)
    return _of_row(value.strip(), place)


@wanting("string", _TEXT)
def column(value: object, place: Place) -> str:
    """The name of a column, whatever it is, or a SQL expression over the columns of a row."""
    return _of_row(text(value, place), place)


def _of_row(word: str, place: Place) -> str:
    # A single word, of whatever letters, is no call and no query.
    why = None if word.isidentifier() else beyond_row(word)
    if why is not None:
        place.wrong(why)
    return word


@wanting("string", _TEXT)
def pattern(value: object, place: Place) -> str:
    """A text that becomes a string in SQL."""
    word = text(value, place)
    if "${" in word:
        place.wrong(f"Spark puts settings and environment variables in the place of ${{...}}: {shown(word)}")
    return word


def name_like(pattern: re.Pattern[str], words: str, what: str) -> Reader:
    """A name of one form.

    Args:
        pattern: the form.
        words: for the list of all keys.
        what: for the error.
    """

    @wanting(words, {"type": "string", "pattern": f"^({pattern.pattern.replace(_WORD, _PLAIN_WORD)})$"})
    def read(value: object, place: Place) -> str:
        word = text(value, place)
        if not pattern.fullmatch(word):
            place.wrong(f"must be {what}, not {shown(word)}")
        return word

    return read


identifier = name_like(_NAME, "name", "a name of letters, digits and underscores that does not begin with a digit")
"""A column name or output name: letters, digits and underscores."""

table_name = name_like(_TABLE_NAME, "table, db.table or catalog.db.table", "table, db.table or catalog.db.table in plain names")
"""``table``, ``db.table`` or ``catalog.db.table``."""


@wanting("path", _TEXT)
def location(value: object, place: Place) -> str:
    """A path: with a scheme (``s3://``) as it stands, else absolute, seen from the folder of the job file.

    A relative one stays below that folder. What lies elsewhere says where: whoever reads the job file shall see it. So ``~``,
    which is another folder for each user, is refused.
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
        # resolve() follows links, so that messages and checkpoints show where things really are.
        return str((place.document.path.parent / word).resolve())
    except (RuntimeError, OSError, ValueError) as error:
        place.wrong(f"is not a usable path: {error}")


def is_local(path: str) -> bool:
    """Whether a path that :func:`location` returned is on this machine."""
    return not _SCHEME.match(path)


@wanting("true or false", {"type": "boolean"})
def boolean(value: object, place: Place) -> bool:
    """True or false, not a word for it."""
    if not isinstance(value, bool):
        place.wrong(f"must be true or false, not {kind(value)}: {shown(value)}")
    return value


def integer(least: int) -> Reader:
    """A whole number of at least ``least``."""

    @wanting(f"integer, at least {least}", {"type": "integer", "minimum": least, "maximum": 2**31 - 1})
    def read(value: object, place: Place) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            place.wrong(f"must be an integer, not {kind(value)}: {shown(value)}")
        if value < least:
            place.wrong(f"must be at least {least}, not {shown(value)}")
        if value >= 2**31:
            place.wrong(f"{shown(value)} is too large")
        return value

    return read


@wanting("number", {"type": "number"})
def number(value: object, place: Place) -> float:
    """A number, whole or not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        place.wrong(f"must be a number, not {kind(value)}: {shown(value)}")
    return value


def choice(*allowed: str, explain: Callable[[str], str | None] | None = None) -> Reader:
    """One of a few words.

    Args:
        allowed: the words.
        explain: a better answer than the nearest of them, for some others.
    """

    @wanting(", ".join(f'"{each}"' for each in allowed), {"enum": list(allowed)})
    def read(value: object, place: Place) -> str:
        word = text(value, place)
        if word not in allowed:
            place.wrong(f"{shown(word)} {(explain and explain(word)) or 'is not known; ' + did_you_mean(word, allowed)}")
        return word

    return read


def duration(*, negative: bool = False, zero: bool = True) -> Reader:
    """A duration such as ``"90 seconds"``; stays text, so that plans show what the user wrote."""

    @wanting("duration" if zero else "duration, not 0", _DURATION)
    def read(value: object, place: Place) -> str:
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
    """An array; a single string counts as an array of one."""
    one = accepted(reader)
    many = {"type": "array", "items": one}

    @wanting(f"array of {wants(reader)}", {"anyOf": [one, many]} if one.get("type") == "string" else many)
    def read(value: object, place: Place) -> tuple[Any, ...]:
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
    """A table of the user's own keys, in the order of the file."""

    @wanting(
        f"table: {wants(keys)} = {wants(values)}",
        {"type": "object", "propertyNames": accepted(keys), "additionalProperties": accepted(values)},
    )
    def read(value: object, place: Place) -> dict[str, Any]:
        items = {}
        with all_noted(place):
            for each, raw in _mapping(value, place).items():
                with suppress(InvalidValue):
                    items[keys(each, place.at(str(each)))] = values(raw, place.at(str(each)))
        return items

    return read


_SCALAR = {"type": ["string", "number", "boolean"]}


@wanting("string, number or boolean", _SCALAR)
def scalar(value: object, place: Place) -> str:
    """A string, number or boolean, as the text that Spark takes for an option."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        place.wrong(f"must be a string, a number or a boolean, not {kind(value)}: {shown(value)}")
    # Separators of CSV options may be a tab; nothing else below a blank makes sense.
    if CONTROL.search(value.replace("\t", " ")):
        place.wrong(f"has control characters: {shown(value)}")
    return value


@wanting("string", _TEXT)
def option(value: object, place: Place) -> str:
    """The name of an option, which is not a second way to say a path."""
    word = text(value, place)
    if word.strip().lower() in ("path", "paths"):
        place.wrong("is no option here: where something is says the key 'path' of the section")
    return word


spark_options = table(option, scalar)
"""Options that are passed on to Spark."""


class Settings:
    """Settings by name, nested at their dots or not."""

    accepts: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": {"anyOf": [_SCALAR, {"$ref": "#/definitions/Settings"}]},
    }


def flat(prefix: str) -> Reader:
    """A table of settings whose names have dots: ``a.b = 1`` (nested in TOML) and ``"a.b" = 1`` are the same."""

    @wanting(f"table of settings that begin with {prefix}.", {"$ref": Settings})
    def read(value: object, place: Place) -> dict[str, str]:
        items: dict[str, str] = {}

        def walk(inside: Mapping[str, object], at: Place, path: str) -> None:
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
def ddl(value: object, place: Place) -> str:
    """A DDL string, or a table of column = type, as a DDL string."""
    if isinstance(value, str):
        return sql(value, place)
    columns = table(text, text)(value, place)
    if not columns:
        place.wrong("has no columns")
    return _of_row(", ".join(f"`{name.replace('`', '``')}` {kind_of}" for name, kind_of in columns.items()), place)


@wanting("duration, or a number of rows", {"anyOf": [_DURATION, accepted(integer(1))]})
def extent(value: object, place: Place) -> str | int:
    """How large a window is: a duration, or (of count windows) a number of rows."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(integer(1)(value, place))
    return str(duration(zero=False)(value, place))
