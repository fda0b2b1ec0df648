"""Arguments of ``start`` and ``run``: outputs, triggers converted for Spark, checks, and warnings."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from panestream.engine.plan import MAIN, WindowPlan
from panestream.engine.runtime.group_operator import check_closable
from panestream.errors import InvalidDurationError, InvalidPlanError, SinkError, did_you_mean, warn
from panestream.spark.columns import Names
from panestream.spark.session import missing_startup_settings
from panestream.spark.sinks.base import Sink
from panestream.windowing.assigners import MergingWindowAssigner
from panestream.windowing.time import format_duration, to_micros
from panestream.windowing.triggers import Trigger

if TYPE_CHECKING:
    from panestream.engine.plan import OperatorSpec, WindowQuery


_KINDS = ("availableNow", "once", "processingTime")
_SWITCHES = {"availablenow": "availableNow", "once": "once"}
_SNAKE = {"available_now": "availableNow", "processing_time": "processingTime"}
_REFUSED = {
    "continuous": "continuous processing does not take Python operators",
    "realTime": "its real-time mode does not take Python operators",
}
_NEVER_ENDS = (
    "windows or triggers of processing time need a running clock: with availableNow Spark would run empty micro-batches "
    "forever. Give trigger={'processingTime': '1 second'} and stop the query yourself; or {'once': True} for one micro-batch of "
    "all available rows (open windows wait for the next run); or read the clock from a column of arrival times, "
    ".processing_time_from(column); or run it as a batch, which closes all windows at the end of the input"
)
SPARKS_NAMES = (*_KINDS, *_REFUSED)
"""The names of the arguments of ``DataStreamWriter.trigger``."""
_KNOWN = (
    "'availableNow' (all available rows, then the query ends; the default), 'once' (the same in one micro-batch), '10 seconds' "
    "(a micro-batch at this interval, without end); or in Spark's form, {'availableNow': True}, {'once': True}, "
    "{'processingTime': '10 seconds'}"
)


def spark_trigger(trigger: object, processing_time: object = None) -> dict[str, Any]:
    """Return the arguments of Spark's ``trigger``, for ``trigger`` or for an interval of micro-batches.

    ``trigger`` is ``"availableNow"``, ``"once"``, a duration, or Spark's own arguments by name; None is ``availableNow``. Raises
    InvalidPlanError for anything else, or if both are given.

    >>> spark_trigger(None), spark_trigger("availableNow"), spark_trigger({"once": True})
    ({'availableNow': True}, {'availableNow': True}, {'once': True})
    >>> spark_trigger("10 seconds"), spark_trigger("processingTime='1 minute'")
    ({'processingTime': '10 seconds'}, {'processingTime': '1 minute'})
    >>> spark_trigger(None, processing_time="10 seconds")
    {'processingTime': '10 seconds'}
    """
    if processing_time is not None:
        if trigger is not None:
            raise InvalidPlanError("start takes trigger or processing_time, not both: leave out one")
        return _of_mapping({"processingTime": processing_time})
    if trigger is None:
        return {"availableNow": True}
    if isinstance(trigger, Mapping):
        return _of_mapping(trigger)
    if isinstance(trigger, str):
        written = re.fullmatch(r"\s*(\w+)\s*=\s*['\"]?(.*?)['\"]?\s*", trigger)
        if written is not None:
            value: Any = {"true": True, "false": False}.get(written[2].lower(), written[2])
            return _of_mapping({written[1]: value})
        switch = _SWITCHES.get(re.sub(r"[\s_-]", "", trigger).lower())
        if switch is not None:
            return {switch: True}
    if isinstance(trigger, (str, timedelta)):
        return {"processingTime": _interval(trigger, trigger)}
    if isinstance(trigger, Trigger) or (isinstance(trigger, type) and issubclass(trigger, Trigger)):
        raise InvalidPlanError(
            f"start's trigger decides when micro-batches run: {_KNOWN}. A trigger of windows, such as {trigger!r}, belongs to "
            f"the windows: .window(...).trigger(...)"
        )
    raise _wrong(trigger)


def _of_mapping(trigger: Mapping[str, Any]) -> dict[str, Any]:
    if len(trigger) != 1:
        raise _wrong(trigger)
    ((name, value),) = trigger.items()
    name = _SNAKE.get(name, name)
    if name in _REFUSED:
        raise InvalidPlanError(f"start: Spark's {name} trigger cannot run windows, {_REFUSED[name]}; trigger is one of {_KNOWN}")
    if name in _SWITCHES.values() and value is True:
        return {name: True}
    if name == "processingTime" and isinstance(value, (str, timedelta)):
        return {name: _interval(value, trigger)}
    raise _wrong(trigger)


def _interval(duration: str | timedelta, trigger: object) -> str:
    """Return the duration as Spark accepts it, in whole milliseconds."""
    try:
        micros = to_micros(duration.removeprefix("interval ") if isinstance(duration, str) else duration, "trigger")
    except InvalidDurationError as error:
        raise _wrong(trigger) from error
    if micros < 0 or micros % 1000:
        raise InvalidPlanError(f"start's trigger must be a whole number of milliseconds, not negative, got {duration!r}")
    return format_duration(micros)


def _wrong(trigger: object) -> InvalidPlanError:
    return InvalidPlanError(f"start's trigger is one of {_KNOWN}; got {trigger!r}")


def reads_own_offsets(source_offsets: object) -> bool:
    """Return whether sources begin at their own options; raise InvalidPlanError unless it is ``"savepoint"`` or ``"job"``."""
    if source_offsets not in ("savepoint", "job"):
        raise InvalidPlanError(
            "source_offsets is 'savepoint' (sources start where the savepoint ends) or 'job' (sources start where their options "
            "define), got "
            f"{source_offsets!r}"
        )
    return source_offsets == "job"


def is_bounded(when: Mapping[str, Any]) -> bool:
    """Return whether a query with these arguments of Spark's trigger ends when it has read all available rows."""
    return "processingTime" not in when


def check_ending(plan: WindowPlan, when: Mapping[str, Any], *, fire_at_end: bool) -> None:
    """Check that a query that should end can end, and that ``fire_at_end`` has an end; raise InvalidPlanError otherwise."""
    by_clock = plan.operator.capabilities.uses_processing_time and plan.processing_time is None
    if by_clock and when.get("availableNow"):
        raise InvalidPlanError(_NEVER_ENDS)
    if plan.watermark.closes_after is not None and plan.processing_time is not None and not is_bounded(when):
        raise InvalidPlanError(
            "closing_after needs the clock, but processing_time_from reads the clock from rows, which a silent source lacks. "
            "Leave out one of them"
        )
    if not fire_at_end:
        return
    if not is_bounded(when):
        raise InvalidPlanError(
            "fire_at_end is for a query that ends: trigger='availableNow', or 'once'. A query that keeps running closes its "
            "windows by the clock: WatermarkStrategy.closing_after('30 seconds')"
        )
    if plan.operator.capabilities.uses_processing_time:
        raise InvalidPlanError("fire_at_end moves the watermark, but windows or triggers of processing time use the clock")
    if not plan.watermark.has_watermarks:
        raise InvalidPlanError("fire_at_end moves the watermark, but no_watermarks() does not have one. Use another strategy")
    if plan.watermark.of_keys is not None:
        raise InvalidPlanError(
            "fire_at_end closes windows of all keys at one time, but with per_key each key has its own. Leave out one of them"
        )
    check_closable(plan.assigner)


def check_no_place(method: str, places: Sequence[object]) -> None:
    """Refuse sinks that were passed without the name of their output, with an InvalidPlanError."""
    if places:
        first = places[0]
        sink = repr(first) if isinstance(first, Sink) else f"pst.ParquetSink({first!r})"
        more = ", checkpoint='checkpoint'" if method == "start" else ""
        raise InvalidPlanError(f"{method} takes sinks by the name of their output: write result.{method}(main={sink}{more})")


def check_sink(tag: str, sink: object) -> Sink:
    """Return the sink of an output, or raise SinkError if it is not a sink."""
    if not isinstance(sink, Sink):
        instead = f": write {tag}=pst.ParquetSink({sink!r})" if isinstance(sink, (str, Path)) else ""
        raise SinkError(f"the sink of {tag!r} must be one of panestream's (ParquetSink, TableSink, …), got {sink!r}{instead}")
    return sink


def warn_of_missing_sinks(tags: Sequence[str], sinks: Iterable[str], method: str) -> None:
    """Warn of outputs without a sink, ``main`` included."""
    missing = [tag for tag in tags if tag not in sinks]
    if missing:
        rows = f"the output {missing[0]!r} has" if len(missing) == 1 else f"the outputs {', '.join(map(repr, missing))} have"
        warn(
            f"{rows} no sink, so the rows are computed and dropped. Keep them with "
            f"result.{method}({missing[0]}=pst.ParquetSink('out/{missing[0]}'), ...)"
        )


def warn_missing_settings(spark: SparkSession) -> None:
    """Warn if the session was started without a setting that makes small micro-batches fast."""
    missed = missing_startup_settings(spark)
    if missed is not None:
        warn(missed)


def warn_of_stale_rows(windowing: WindowQuery, operator: OperatorSpec, sinks: Mapping[str, Sink], *, changes: bool) -> None:
    """Warn if the sink keeps rows of sessions that fire and then grow, which only a changelog replaces."""
    sink = sinks.get(MAIN)
    if sink is None or not sink.keeps_last or changes or not isinstance(windowing.assigner, MergingWindowAssigner):
        return
    early = windowing.trigger is not None and windowing.trigger != windowing.assigner.get_default_trigger()
    if not early and not windowing.allowed_lateness:
        return
    instead = "Write all rows and take the newest where you read them (docs/ideas/changelogs.md, early results of sessions)"
    if operator.capabilities.no_changelog is None:
        instead = "Add .changelog(), which deletes it"
    warn(
        f"the output {MAIN!r} ({sink.describe()}) keeps the last row of each key and window, but these windows grow: if a "
        f"window fires and then takes another row, its first row stays in addition to the row of the longer window. {instead}"
    )


Method = TypeVar("Method", bound=Callable[..., Any])

ASKED_FOR = {
    "late": "late rows have one with .side_output_late_data('late')",
    "invalid": "rows without event time have one with .side_output_invalid('invalid')",
}
"""How to add the optional outputs, by their usual names."""


def takes_outputs(method: Method) -> Method:
    """Record the options of a method that also takes sinks as keywords, to distinguish them from outputs."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    _OPTIONS[method.__name__] = [
        parameter.name for parameter in parameters if parameter.kind in kinds and parameter.name not in ("self", "outputs")
    ]
    return method


_OPTIONS: dict[str, list[str]] = {}
"""The options of each recorded method."""


def sinks_of(
    method: str,
    outputs: Mapping[str, Sink] | None,
    keywords: Mapping[str, object],
    options: Mapping[str, object],
    tags: Sequence[str],
) -> dict[str, Sink]:
    """Return the sinks by output, from ``outputs=`` and keywords; refuse unknown or repeated outputs and sinks as ``options``."""
    if outputs is not None and not isinstance(outputs, Mapping):
        raise InvalidPlanError(f"{method}: outputs must be a dict from outputs to sinks, e.g. {{'main': sink}}, got {outputs!r}")
    own = dict(outputs or {})
    for name, value in options.items():
        if isinstance(value, Sink):
            raise InvalidPlanError(f"{name} is an option of {method}; for an output of that name write outputs={{{name!r}: ...}}")
    for name, value in keywords.items():
        if name not in tags and name in SPARKS_NAMES:
            raise InvalidPlanError(f"{name} is a trigger, not an output: write start(trigger={{{name!r}: {value!r}}}, ...)")
        if name in own:
            raise InvalidPlanError(f"{method}: the output {name!r} was given twice, in outputs= and as a keyword")
        if name not in tags and not isinstance(value, Sink):
            near = difflib.get_close_matches(name, _OPTIONS.get(method, ()), n=1)
            if near:
                raise InvalidPlanError(f"{method} has no option {name!r}; did you mean {near[0]!r}?")
    for tag, sink in {**own, **keywords}.items():
        check_output(tag, tags)
        own[tag] = check_sink(tag, sink)
    return own


def checked_tag(tag: str) -> str:
    """Return an output name; raise InvalidPlanError if it is empty, unprintable, ``main``, or begins with an underscore."""
    if not isinstance(tag, str) or not tag or not tag.isprintable() or tag.startswith("_") or tag == MAIN:
        raise InvalidPlanError(f"the name of an output is a text other than 'main', without a leading underscore, got {tag!r}")
    return tag


def check_output(tag: str, known: Sequence[str]) -> None:
    """Check that the query has an output; raise InvalidPlanError with the known ones and how to add late or invalid ones."""
    if tag in known:
        return
    kind = tag.split("_", maxsplit=1)[0]
    is_optional = kind in ASKED_FOR and not any(other.startswith(kind) for other in known)
    hint = f" ({ASKED_FOR[kind]})" if is_optional else ""
    raise InvalidPlanError(f"there is no output {tag!r}; {did_you_mean(tag, known)}{hint}")


def check_added(what: str, added: Sequence[pa.Field], there: Sequence[str], names: Names) -> None:
    """Check that columns added by the method ``what`` have new names; raise InvalidPlanError otherwise."""
    for column in added:
        if names.find(column.name, there) is not None:
            raise InvalidPlanError(f"{what} adds a column {column.name!r}, the results have one already: rename it")
