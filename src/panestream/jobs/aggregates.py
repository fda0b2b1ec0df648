"""``[[aggregate]]`` of a job file: the functions and their arguments, derived from ``panestream.agg``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from panestream.errors import InvalidPlanError
from panestream.jobs.schema import (
    DocumentPlace,
    InvalidValue,
    Reader,
    Section,
    all_noted,
    array,
    boolean,
    choice,
    duration,
    expect,
    identifier,
    integer,
    kind,
    number,
    reads,
    section,
    setting,
    shown,
    sql,
)
from panestream.windowing import aggregates as agg

_COUNT = integer(1)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an aggregate function under its name in a job file; ``many`` takes all remaining positional arguments."""

    name: str
    reader: Reader
    required: bool
    default: object = None
    many: bool = False


def _reader_of(hint: Any, argument: str) -> Reader:
    """Return the reader of a type or raise ``TypeError``; expressions are text, and numbers have one notation."""
    several, parts = get_origin(hint), [part for part in get_args(hint) if part is not type(None)]
    if hint is Any or parts == [Any]:
        return sql  # expressions are declared as Any, since they may also be Columns
    if several is not None and isinstance(several, type) and issubclass(several, Iterable):
        return array(_reader_of(parts[0], argument))
    kinds = {hint} if several is None else set(parts)
    if kinds == {bool}:
        return boolean
    if kinds == {str}:
        return identifier
    if kinds == {int}:
        return _COUNT
    if kinds == {timedelta, str}:
        return duration(zero=False)
    if kinds <= {int, float, Decimal}:
        return number
    raise TypeError(
        f"{argument} is of the type {hint}, which job files cannot read. Add a reader here, or set plain_arguments = False in "
        f"the recipe"
    )


def arguments_of(function: Callable[..., agg.Aggregate]) -> Mapping[str, Argument]:
    """Return the keys of an ``agg`` function in argument order or raise ``TypeError``; an expression becomes a column."""
    found, hints = {}, get_type_hints(function)
    for each in inspect.signature(function).parameters.values():
        many = each.kind is inspect.Parameter.VAR_POSITIONAL
        name = {"expr": "column", "exprs": "columns"}.get(each.name, each.name)
        required = many or each.default is inspect.Parameter.empty
        reader = _reader_of(hints[each.name], f"{each.name!r} of agg.{function.__name__}")
        found[name] = Argument(name, array(reader) if many else reader, required, None if required else each.default, many)
    return found


FUNCTIONS: Mapping[str, Mapping[str, Argument]] = {
    name: arguments_of(getattr(agg, name))
    for name in agg.__all__
    if inspect.isfunction(getattr(agg, name)) and get_type_hints(getattr(agg, name))["return"].plain_arguments
}
"""The aggregate functions of job files with their keys: all functions of ``agg`` with plain arguments."""

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)


class AggregateSection(Section):
    """One ``[[aggregate]]``: a function over the rows of a window.

    Attributes:
        function: one of :data:`FUNCTIONS`.
        alias: name of the output column, by default function and column.
    """

    __slots__ = ()
    kind_key = "function"
    kinds: ClassVar = {
        name: " ".join(f"{each.name}{'!' if each.required else ''}" for each in takes.values())
        for name, takes in FUNCTIONS.items()
    }
    function: str
    alias: str | None

    @property
    def arguments(self) -> dict[str, Any]:
        """The given arguments of the function by key."""
        return {name: value for name in FUNCTIONS[self.function] if (value := getattr(self, name)) is not None}

    @property
    def recipe(self) -> agg.Aggregate:
        """The library's aggregate; raises ``InvalidPlanError`` if an argument is out of range."""
        function: Callable[..., agg.Aggregate] = getattr(agg, self.function)
        positional: list[Any] = []
        for each in FUNCTIONS[self.function].values():
            value = self.arguments.get(each.name, each.default)
            positional += value if each.many else [value]
        return function(*positional).alias(self.name)

    @property
    def name(self) -> str:
        if self.alias is not None:
            return self.alias
        of = self.arguments.get("column", self.arguments.get("output", ""))
        expressions = " ".join([of, *self.arguments.get("columns", ())])
        return "_".join([self.function, *re.findall(r"[A-Za-z0-9_]+", expressions)])

    def check_library(self, place: DocumentPlace) -> None:
        try:
            _ = self.recipe
        except InvalidPlanError as error:
            place.note(str(error))


def readers_of(functions: Mapping[str, Mapping[str, Argument]]) -> Mapping[str, Reader]:
    """Return the reader of each key; raise ``TypeError`` if functions read a key differently, or a section cannot have it."""
    readers: dict[str, Reader] = {}
    for function, takes in functions.items():
        for name, argument in takes.items():
            if readers.setdefault(name, argument.reader).words != argument.reader.words or hasattr(AggregateSection, name):
                raise TypeError(f"rename {name!r} of agg.{function}: in job files this key has another meaning")
    return readers


aggregate_section: type[AggregateSection] = make_dataclass(
    "AggregateSection",
    [
        ("function", str, setting(choice(*FUNCTIONS))),
        ("alias", "str | None", setting(identifier, None)),
        *((name, Any, setting(reader, None)) for name, reader in readers_of(FUNCTIONS).items()),
    ],
    bases=(AggregateSection,),
    namespace={"__doc__": AggregateSection.__doc__},
    frozen=True,
    slots=True,
    kw_only=True,
)
"""The section with a field for each argument of any function."""

_aggregate = section(aggregate_section)
_SHAPE = {
    "anyOf": [
        {"type": "array", "minItems": 1, "items": _aggregate.shape},
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": identifier.shape,
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "pattern": rf"^\s*({'|'.join(sorted(FUNCTIONS))})\s*(\([\s\S]*\))?\s*$"},
                    _aggregate.shape,
                ]
            },
        },
    ]
}


@reads('table: alias = "function(column)" or { function = …, … }; or [[aggregate]] with function and alias', _SHAPE)
def aggregates(value: object, place: DocumentPlace) -> tuple[AggregateSection, ...]:
    """Read an array of tables, or a table of alias = "function(column)" or alias = { function = …, … }."""
    if not isinstance(value, list | Mapping):
        place.wrong(f'must be an array of tables ([[aggregate]]) or a table (alias = "function(column)"), not {kind(value)}')
    if not value:
        place.wrong('is empty: give at least one, e.g. clicks = "count"')
    sections: dict[str, AggregateSection] = {}
    with all_noted(place):
        for name, raw in enumerate(value) if isinstance(value, list) else value.items():
            at = place.at(name if isinstance(value, list) else str(name))
            with suppress(InvalidValue):
                aggregate = _aggregate(raw if isinstance(value, list) else _named(raw, name, at), at)
                if aggregate.name in sections:
                    at.note(f"there are two output columns {aggregate.name!r}; set 'alias'")
                sections[aggregate.name] = aggregate
    return tuple(sections.values())


def _named(value: object, alias: object, place: DocumentPlace) -> Mapping[str, Any]:
    """Convert ``"sum(price)"`` to ``{"function": "sum", "column": "price"}``, and add the alias."""
    if isinstance(value, Mapping):
        if "alias" in value:
            place.at("alias").note("is the key already: leave it out")
        return {**value, "alias": alias}
    call = _CALL.fullmatch(expect(str, "a string such as 'sum(price)' or a table", value, place))
    if call is None:
        place.wrong(f"must be a function or function(column), not {shown(value)}")
    argument = (call.group(2) or "").strip()
    name = "output" if "output" in FUNCTIONS.get(call.group(1), {}) else "column"
    return {"function": call.group(1), "alias": alias, **({} if argument in ("", "*") else {name: argument})}
