"""``[[aggregate]]`` of a job file: the functions and their arguments, derived from ``panestream.agg``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from panestream.errors import InvalidPlanError, did_you_mean
from panestream.jobs.schema import (
    DocumentPlace,
    InvalidValue,
    Reader,
    accepted,
    array,
    boolean,
    choice,
    identifier,
    integer,
    kind,
    number,
    shown,
    sql,
    wanting,
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
    if kinds <= {int, float, Decimal}:
        return number
    raise TypeError(
        f"{argument} is of the type {hint}, for which job files know no reader: add one here, "
        "or say plain_arguments = False in the recipe"
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

KEYS = tuple(dict.fromkeys(key for arguments in FUNCTIONS.values() for key in arguments))

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateSection:
    """One ``[[aggregate]]``: a function over the rows of a window.

    Attributes:
        function: one of :data:`FUNCTIONS`.
        alias: name of the output column, by default function and column.
        arguments: the function's arguments by key.
    """

    function: str
    alias: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> agg.Aggregate:
        """The library's aggregate; raises ``InvalidPlanError`` if an argument is out of range."""
        function: Callable[..., agg.Aggregate] = getattr(agg, self.function)
        positional: list[Any] = []
        for each in FUNCTIONS[self.function].values():
            given = self.arguments.get(each.name, each.default)
            positional += given if each.many else [given]
        return function(*positional).alias(self.name)

    @property
    def name(self) -> str:
        if self.alias is not None:
            return self.alias
        of = self.arguments.get("column", self.arguments.get("output", ""))
        expressions = " ".join([of, *self.arguments.get("columns", ())])
        return "_".join([self.function, *re.findall(r"[A-Za-z0-9_]+", expressions)])


def _aggregate(value: object, place: DocumentPlace) -> AggregateSection:
    """Read an aggregate: ``function``, ``alias``, and the arguments of this function."""
    if not isinstance(value, Mapping):
        place.wrong(f"must be a table, not {kind(value)}: {shown(value)}")
    before = len(place.problems)
    if "function" not in value:
        place.wrong(f"'function' is missing: one of {', '.join(sorted(FUNCTIONS))}")
    function = choice(*FUNCTIONS)(value["function"], place.at("function"))
    takes, given = FUNCTIONS[function], {}
    for key, raw in value.items():
        if key == "function":
            continue
        try:
            given[str(key)] = _reader(function, str(key), place.at(str(key)))(raw, place.at(str(key)))
        except InvalidValue:
            continue
    for each in takes.values():
        if each.required and each.name not in value:
            place.note(f"{each.name!r} is missing: {function} needs it")
    if len(place.problems) > before:
        raise InvalidValue
    spec = AggregateSection(function=function, alias=given.pop("alias", None), arguments=given)
    try:
        spec.recipe  # noqa: B018 - the library judges the values
    except InvalidPlanError as wrong:
        place.wrong(str(wrong))
    return spec


def _reader(function: str, key: str, place: DocumentPlace) -> Reader:
    takes = FUNCTIONS[function]
    if key == "alias":
        return identifier
    if key not in KEYS:
        place.wrong(f"unknown key; {did_you_mean(key, ['function', 'alias', *takes])}")
    if key not in takes:
        users = ", ".join(each for each, may in FUNCTIONS.items() if key in may)
        place.wrong(f"{function} takes no {key!r} (it is for {users})")
    return takes[key].reader


class OneAggregate:
    """The JSON Schema of an aggregate function with its arguments."""

    accepts: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "required": ["function"],
        "properties": {"function": {"enum": sorted(FUNCTIONS)}, "alias": accepted(identifier)},
        "allOf": [
            {
                "if": {"properties": {"function": {"const": name}}, "required": ["function"]},
                "then": {
                    "properties": {each.name: accepted(each.reader) for each in takes.values()},
                    "required": [each.name for each in takes.values() if each.required],
                    "propertyNames": {"enum": ["function", "alias", *takes]},
                },
            }
            for name, takes in sorted(FUNCTIONS.items())
        ],
    }


_ACCEPTED = {
    "anyOf": [
        {"type": "array", "minItems": 1, "items": {"$ref": OneAggregate}},
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": accepted(identifier),
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "pattern": rf"^\s*({'|'.join(sorted(FUNCTIONS))})\s*(\([\s\S]*\))?\s*$"},
                    {"$ref": OneAggregate},
                ]
            },
        },
    ]
}


@wanting('table: alias = "function(column)" or { function = …, … }; or [[aggregate]] with function and alias', _ACCEPTED)
def aggregates(value: object, place: DocumentPlace) -> tuple[AggregateSection, ...]:
    """Read an array of tables, or a table of alias = "function(column)" or alias = { function = …, … }."""
    found, before = [], len(place.problems)
    if isinstance(value, list):
        for index, each in enumerate(value):
            try:
                found.append(_aggregate(each, place.at(index)))
            except InvalidValue:
                continue
    elif isinstance(value, Mapping):
        for alias, each in value.items():
            at = place.at(str(alias))
            try:
                found.append(_named(_call(each, at), alias, at))
            except InvalidValue:
                continue
    else:
        place.wrong(f'must be an array of tables ([[aggregate]]) or a table (alias = "function(column)"), not {kind(value)}')
    if len(place.problems) > before:
        raise InvalidValue
    if not found:
        place.wrong('is empty: give at least one, e.g. clicks = "count"')
    names: set[str] = set()
    for index, each in enumerate(one.name for one in found):
        if each in names:
            place.at(index if isinstance(value, list) else each).note(f"there are two output columns {each!r}; set 'alias'")
        names.add(each)
    if len(place.problems) > before:
        raise InvalidValue
    return tuple(found)


def _named(value: Mapping[str, Any], alias: object, place: DocumentPlace) -> AggregateSection:
    if "alias" in value:
        place.at("alias").note("is the key already: leave it out")
    return _aggregate({**value, "alias": alias}, place)


def _call(value: object, place: DocumentPlace) -> Mapping[str, Any]:
    """Convert ``"sum(price)"`` to ``{"function": "sum", "column": "price"}``; return tables unchanged."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        place.wrong(f"must be a string such as 'sum(price)' or a table, not {kind(value)}: {shown(value)}")
    call = _CALL.fullmatch(value)
    if call is None:
        place.wrong(f"must be a function or function(column), not {shown(value)}")
    argument = (call.group(2) or "").strip()
    takes = FUNCTIONS.get(call.group(1), {})
    key = "output" if "output" in takes else "column"
    return {"function": call.group(1), **({} if argument in ("", "*") else {key: argument})}
