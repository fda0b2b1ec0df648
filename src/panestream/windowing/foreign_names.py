"""Names of PySpark and Flink that users type, e.g. ``query.awaitTermination()``, and their equivalents in panestream.

A name with the same meaning works. Any other name raises an error with the line to write. ``dir()`` shows neither. To add a name,
extend the tables below.
"""

from __future__ import annotations

import difflib
import re
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from panestream.errors import InvalidPlanError, UnknownNameError

P = ParamSpec("P")
R = TypeVar("R")


class Same(str):
    """The panestream name for a foreign name with the same meaning."""

    __slots__ = ()


AGGREGATES = {
    "any_value": "first",
    "approx_count_distinct": "approx_count_distinct",
    "array_agg": "collect_list",
    "avg": "avg",
    "bool_and": "bool_and",
    "bool_or": "bool_or",
    "collect_list": "collect_list",
    "collect_set": "collect_set",
    "corr": "corr",
    "count": "count",
    "count distinct": "count_distinct",
    "count_if": "count_if",
    "covar_pop": "covar_pop",
    "covar_samp": "covar_samp",
    "every": "bool_and",
    "first": "first",
    "first_value": "first",
    "last": "last",
    "last_value": "last",
    "max": "max",
    "max_by": "max_by",
    "mean": "mean",
    "min": "min",
    "min_by": "min_by",
    "median": "median",
    "mode": "mode",
    "regr_intercept": "regr_intercept",
    "regr_r2": "regr_r2",
    "regr_slope": "regr_slope",
    "some": "bool_or",
    "std": "stddev",
    "stddev": "stddev",
    "stddev_samp": "stddev",
    "sum": "sum",
    "var_samp": "var",
    "variance": "var",
}
"""Spark's aggregate functions that ``agg`` also has, with their names there."""
OF_TWO = ("corr", "covar_pop", "covar_samp", "max_by", "min_by", "regr_intercept", "regr_r2", "regr_slope")
"""Aggregates of two columns."""
QUANTILES = {
    "approx_percentile": "approx_quantile",
    "percentile": "percentile",
    "percentile_approx": "approx_quantile",
    "percentile_cont": "percentile",
}
"""Spark's functions for quantiles, with the function of ``agg`` for one; its name with ``s`` takes several."""

_HOUR = "TumblingEventTimeWindows.of('1 hour')"
_START = "start(main=ParquetSink('out/main'), checkpoint='checkpoint')"
_NEXT = {
    "DataStream": ("KeyedStream", ".key_by('user')"),
    "KeyedStream": ("WindowedStream", f".window({_HOUR})"),
    "CoGroupedStream": ("CoGroupedWindows", f".window({_HOUR})"),
    "IntervalJoin": ("IntervalPairs", ".between('-1 hour', '0 seconds')"),
    "IntervalPairs": ("WindowedResult", ".pairs()"),
    "WindowedStream": ("WindowedResult", ".aggregate(agg.count())"),
    "WindowedResult": ("RunningQuery", f".{_START}"),
}
"""The steps of a query: each class with the next class, and with the call that leads there."""

_ROWS_BEFORE = "prepare the rows first, pst.stream(df.{name}(...))"
_ROWS_AFTER = "a result has outputs, and each is a DataFrame: write result.main.{name}(...)"
_LOOKED_AT = "the rows are in .df: write stream.df.{name}"
_SHOWN = "write result.main.{name} for a batch; the rows of a stream go to sinks, e.g. result.start(main=ConsoleSink(), ...)"
_IN_SINKS = "the rows are where the sinks wrote them: read the folder or the table, or take MemorySink.rows"
_WRITTEN = f"write result.{_START} for a stream, or result.run(main=ParquetSink('out/main')) for a batch"
_MODE = (
    "output modes do not exist here: rows are appended, .changelog() adds updates and deletes, and MergeSink keeps the last row "
    "of each "
    "key and window"
)
_OF_SPARK = "it belongs to Spark's own query: write query.query.{name}()"
_NO_WINDOWS = "an interval join does not have windows. Write .between('-1 hour', '0 seconds').pairs()"

_GIVEN = {"count": "", **dict.fromkeys(OF_TWO, "'page', 'price'"), "count_if": "'price > 100'"}
"""The arguments of aggregates that do not take a single column."""
_REWRITERS = (
    *("filter", "where", "select", "select_expr", "with_column", "with_columns", "with_column_renamed", "drop", "na"),
    *("drop_duplicates", "distinct", "union", "union_all", "union_by_name", "map", "flat_map", "map_in_pandas"),
    *("map_in_arrow", "order_by", "sort", "limit", "alias", "dropna", "fillna", "repartition", "sample"),
)
"""DataFrame methods that return another DataFrame, in snake case."""
_LOOKS = ("columns", "schema", "dtypes", "spark_session")
_LOOKING = (
    *("show", "collect", "to_pandas", "print_schema", "head", "take", "tail", "display", "to_arrow", "cache", "persist"),
    "create_or_replace_temp_view",
)
"""Methods that show a DataFrame. ``_LOOKS`` are attributes that do so."""
_WRITERS = ("write_stream", "write", "write_to", "to_table", "foreach_batch", "save", "option", "add_sink", "sink_to")
"""Names of Spark and Flink that write rows."""


def _each(names: Sequence[str], text: str) -> dict[str, str]:
    return dict.fromkeys(names, text)


def _looking(text: str, *more: str) -> dict[str, str]:
    return {**_each(_LOOKS, text), **_each((*_LOOKING, *more), text.replace("{name}", "{name}()"))}


_TABLES: Mapping[str, Mapping[str, str]] = {
    "DataStream": {
        **_each(_REWRITERS, _ROWS_BEFORE),
        **_looking(_LOOKED_AT),
        "groupby": Same("group_by"),
        "with_watermark": Same("assign_timestamps"),
        "assign_timestamps_and_watermarks": "write .assign_timestamps('ts', strategy)",
        "window": f"write .key_by('user').window({_HOUR}), or .window_all({_HOUR}) for windows over all rows together",
        "count_window": "write .key_by('user').count_window(100), or .count_window_all(100) over all rows together",
    },
    "KeyedStream": {
        **_each(_REWRITERS, _ROWS_BEFORE),
        **_each(
            ("key_by", "group_by", "groupby"), "the stream has a key: write all columns in one call, .key_by('user', 'page')"
        ),
    },
    "WindowedStream": {
        **_each(_REWRITERS, _ROWS_BEFORE),
        **{name: f"write .aggregate(agg.{here}({_GIVEN.get(here, repr('price'))}))" for name, here in AGGREGATES.items()},
        **{name: f"write .aggregate(agg.{here}('price', 0.5))" for name, here in QUANTILES.items()},
        "agg": Same("aggregate"),
        "apply_in_arrow": Same("apply_arrow"),
        "output_mode": f".trigger(...) says when windows fire; {_MODE}",
        "window": "write several windows in one call, .window(first, second)",
    },
    "CoGroupedStream": {
        **_each(("where", "equal_to"), "both streams have their keys from .key_by(...)"),
        "pairs": "the two streams need windows. Write .window(...).pairs(...); for pairs of rows that are near in time, without "
        "windows, write left.interval_join(right)",
    },
    "IntervalJoin": {"window": _NO_WINDOWS},
    "IntervalPairs": {"window": _NO_WINDOWS},
    "WindowedResult": {
        **_each((*_REWRITERS, "group_by", "groupby", "agg", "join"), _ROWS_AFTER),
        **_looking(_SHOWN, "count", "first"),
        **_each(_WRITERS, _WRITTEN),
        "aggregate": "write all aggregates in one call, .aggregate(agg.count(), agg.sum('price'))",
        "output_mode": _MODE,
        "query_name": "write start(name='clicks', ...)",
        "trigger": "start(trigger='10 seconds') says when micro-batches run; .trigger(...) before .aggregate(...) says when "
        "windows fire",
    },
    "RunningQuery": {
        **_looking(_IN_SINKS, "main", "output"),
        **{name: Same(f"query.{spark}") for name, spark in {"id": "id", "run_id": "runId", "name": "name"}.items()},
        "status": Same("query.status"),
        "process_all_available": f"a query with start(trigger='availableNow') reads all there is and ends; {_OF_SPARK}",
        "exception": f"query.await_termination() raises it; {_OF_SPARK}",
    },
    "agg": {
        **{name.replace(" ", "_"): Same(here) for name, here in AGGREGATES.items()},
        **{
            name: f"write agg.{here}('price', 0.5), or agg.{here}s('price', [0.5, 0.9]) for several"
            for name, here in QUANTILES.items()
            if name != here
        },
        **_each(("hll_sketch_agg", "approx_distinct"), "write agg.hll_sketch('page')"),
        "theta_sketch_agg": "write agg.theta_sketch('page')",
        **_each(
            [f"kll_sketch_agg_{kind}" for kind in ("bigint", "double", "float")],
            "its sketches differ from run to run, so a repeated micro-batch would change results: write "
            "agg.approx_quantiles('price', [0.5, 0.9]), or agg.percentiles(...) for exact values",
        ),
        "sum_distinct": "write agg.collect_set('price') and sum over the result",
        "stddev_pop": "agg.stddev('price') is that of a sample",
        "var_pop": "agg.var('price') is that of a sample",
        **_each(("col", "column", "expr"), "write the text itself, agg.sum('price * quantity'), or a Column of PySpark's"),
    },
    "panestream": {
        **{name: f"write pst.agg.{here}({_GIVEN.get(here, repr('price'))})" for name, here in AGGREGATES.items()},
        **_each(("aggregates", "F"), "aggregates are in pst.agg"),
        **_each(("window", "tumble", "TumblingWindow"), "write pst.tumbling('1 hour'), or pst.sliding('1 hour', '5 minutes')"),
        "session_window": "write pst.session('30 minutes')",
        **{f"{kind}Sink": f"write pst.TableSink('clicks', format='{kind.lower()}')" for kind in ("Delta", "Iceberg")},
        **{f"{kind}Sink": f"write pst.FileSink('out/main', {kind.lower()!r})" for kind in ("Json", "JSON", "Csv", "CSV", "Orc")},
        **_each(("Time", "Duration"), "a duration is a text or a timedelta, e.g. '10 minutes'"),
        **_each(("read_stream", "from_dataframe", "from_df"), "write pst.stream(df)"),
    },
    "WatermarkStrategy": {"of": "write WatermarkStrategy.for_bounded_out_of_orderness('5 minutes')"},
    **{
        f"{kind}SessionWindows": {"of": f"write {kind}SessionWindows.with_gap('30 minutes')"}
        for kind in ("EventTime", "ProcessingTime")
    },
}
"""Advice for each class or namespace, by the foreign name; ``{name}`` is replaced by the typed name."""


def snake_case(name: str) -> str:
    """Return a name in snake case.

    >>> snake_case("awaitTermination"), snake_case("toPandas"), snake_case("key_by")
    ('await_termination', 'to_pandas', 'key_by')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def resolve(owner: object, name: str, kinds: Sequence[str], whose: str) -> Any:
    """Return the value of a foreign name found in the tables ``kinds``, or raise UnknownNameError with the line to write.

    Names with a leading underscore raise AttributeError, since Python and notebooks look them up all the time.
    """
    if name.startswith("_"):
        raise AttributeError(f"{whose} has no attribute {name!r}")
    known = [own for own in dir(owner) if not own.startswith("_")]
    same = _same(name, kinds, known)
    if same is not None:
        return attrgetter(same)(owner)
    advice = _own_advice(owner, name) or _advice(name, kinds, known)
    raise UnknownNameError(f"{whose} has no attribute {name!r}" + (f": {advice}" if advice else ""))


def _own_advice(owner: object, name: str) -> str | None:
    try:
        advice: str | None = getattr(owner, "_instead_of", lambda _: None)(name)
    except AttributeError:  # the owner is not complete: a debugger or a copy looks at it
        return None
    return advice


def _same(name: str, kinds: Sequence[str], known: Sequence[str]) -> str | None:
    entry = _entry(name, kinds)
    if isinstance(entry, Same):
        return str(entry)
    return snake_case(name) if entry is None and snake_case(name) in known else None


def _entry(name: str, kinds: Sequence[str]) -> str | None:
    tables = [_TABLES[kind] for kind in kinds if kind in _TABLES]
    return next((table[word] for table in tables for word in (name, snake_case(name)) if word in table), None)


def _advice(name: str, kinds: Sequence[str], known: Sequence[str]) -> str | None:
    entry = _entry(name, kinds)
    if entry is not None:
        return entry.format(name=name)
    found = next(iter([*_later(name, kinds), *_earlier(name, kinds)]), None)
    if found is None:
        near = difflib.get_close_matches(snake_case(name), known, n=2) or difflib.get_close_matches(name, known, n=2)
        found = f"did you mean {' or '.join(map(repr, near))}?" if near else None
    return found


def _later(name: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield advice for a name of a later step."""
    path = ""
    for kind, how in _steps(kinds):
        path += how
        classes = _classes(kind)
        entry = _entry(name, classes)
        here = str(entry) if isinstance(entry, Same) else snake_case(name)
        found = getattr(WithForeignNames.classes.get(kind), here, None)
        if found is not None:
            yield f"that comes later: write {path}.{here}{'(...)' if callable(found) else ''}"
        elif entry is not None:
            yield f"first write {path}, then {entry.format(name=name).removeprefix('write ')}"


def _earlier(name: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield advice for a name of an earlier step."""
    for kind, (_, how) in _NEXT.items():
        after = [following for following, _ in _steps([kind])]
        entry = _entry(name, [kind])
        here = str(entry) if isinstance(entry, Same) else snake_case(name)
        if set(kinds) & set(after) and callable(getattr(WithForeignNames.classes.get(kind), here, None)):
            calls = [how.partition("(")[0], *(then.partition("(")[0] for _, then in _steps(after[:1]))]
            before = next((call for call in calls if call != f".{here}"), None)
            yield f"that comes earlier: write .{here}(...)" + (f" before {before}(...)" if before else "")


def _steps(kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the steps that follow: the next class, and the call that leads there."""
    at = next((kind for kind in kinds if kind in _NEXT), None)
    while at is not None:
        following, how = _NEXT[at]
        yield following, how
        at = next((kind for kind in _classes(following) if kind in _NEXT), None)


def _classes(kind: str) -> list[str]:
    found = WithForeignNames.classes.get(kind)
    return [kind] if found is None else [one.__name__ for one in found.__mro__]


class WithForeignNames:
    """An object with the PySpark and Flink names of the same meaning, and with advice for others."""

    classes: ClassVar[dict[str, type]] = {}
    """All subclasses by name, for errors about the steps of a query."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        WithForeignNames.classes[cls.__name__] = cls

    def __dir__(self) -> list[str]:
        """Return the public names, and those of Python's own protocols."""
        return [name for name in object.__dir__(self) if not name.startswith("_") or name.startswith("__")]

    if not TYPE_CHECKING:  # a type checker must go on to refuse unknown names

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if hasattr(kind, name):  # A property raised the AttributeError, which is the error to show.
                return object.__getattribute__(self, name)
            if name in getattr(kind, "__dataclass_fields__", ()):  # __init__ has not set it
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r} yet")
            return resolve(self, name, [one.__name__ for one in kind.__mro__], f"{kind.__name__!r} object")


class ForeignNamesOfClass(ABCMeta):
    """The same for names of a class. Not for base classes of users, whose classes may have another metaclass."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            return resolve(cls, name, [one.__name__ for one in cls.__mro__], f"type object {cls.__name__!r}")


def advised(advise: Callable[[dict[str, Any]], str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a method so that wrong arguments raise an error with ``advise(keyword arguments)``, the line to write."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        taken, name = signature(method), method.__name__

        @wraps(method)
        def call(*args: P.args, **named: P.kwargs) -> R:
            try:
                taken.bind(*args, **named)
            except TypeError as error:
                raise InvalidPlanError(f"{name}: {error}; {advise(dict(named))}") from None
            return method(*args, **named)

        return call

    return decorate


__all__ = [
    "AGGREGATES",
    "OF_TWO",
    "QUANTILES",
    "ForeignNamesOfClass",
    "Same",
    "WithForeignNames",
    "advised",
    "resolve",
    "snake_case",
]
