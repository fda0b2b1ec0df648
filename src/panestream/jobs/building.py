"""From a checked job to the windowed query: the steps of panestream's Python interface, each told with the line of its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from panestream.jobs.functions import ArrowFunctionSection, Found, ProcessSection, find
from panestream.jobs.loading import LoadedJob
from panestream.jobs.reading import Side, asked, read_stream
from panestream.jobs.streams import Stream
from panestream.spark.shipping import ship_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import panestream as pst
    from panestream.datastream.interval_join import IntervalPairs

W = TypeVar("W", "pst.datastream.WindowedStream", "IntervalPairs")


def build(loaded: LoadedJob, spark: SparkSession) -> pst.datastream.WindowedResult:
    """The windowed query of a job, not yet started.

    Raises:
        JobError: a key names a column that the source does not have, or asks for what the library or Spark refuses; a function
            cannot be imported. The error names the key.
    """
    job = loaded.job
    functions = find_function(loaded)
    keyed = [_keyed(loaded, where, one, spark) for where, one in job.streams]
    if functions is not None and functions.home is not None:
        ship_module(spark, functions.home)
    if job.interval_join is not None:
        return _near_in_time(loaded, *keyed)
    windowed = _windowed(loaded, keyed)
    result = _computed(loaded, windowed, functions)
    if job.top is not None:
        largest = job.top
        result = asked(loaded, ("top",), partial(result.top, largest.n, by=largest.by))
    if job.with_firing:
        result = asked(loaded, ("with_firing",), result.with_firing)
    return asked(loaded, ("changelog",), result.changelog) if job.changelog else result


def find_function(loaded: LoadedJob) -> Found | None:
    """The user's own function, if the job has one.

    Raises:
        JobError: it cannot be imported.
    """
    function = loaded.job.function
    if function is None:
        return None
    return find(function[1], loaded.document.path.resolve().parent, loaded.place(function[0], "function"))


def _keyed(loaded: LoadedJob, where: Side, one: Stream, spark: SparkSession) -> pst.datastream.KeyedStream:
    """The rows of a stream with their times and key."""
    import panestream as pst

    stream = read_stream(loaded, where, one, spark)
    if not one.key:
        return pst.datastream.KeyedStream(stream, ())
    return asked(loaded, (*where, "key"), partial(stream.key_by, *one.key))


def _windowed(loaded: LoadedJob, streams: Sequence[pst.datastream.KeyedStream]) -> pst.datastream.WindowedStream:
    """The rows of one stream, or of two as one, in their windows."""
    job = loaded.job
    keyed: Any = streams[0]
    if len(streams) > 1:
        left, right = streams
        # Two that do not go together: it is their keys in most cases.
        keyed = asked(loaded, ("right", "key"), partial(left.join if job.join is not None else left.co_group, right))
    windowed: pst.datastream.WindowedStream
    if job.window is None:
        labelled = {label: spec.assigner for label, spec in job.windows.items()}
        windowed = asked(loaded, ("windows",), lambda: keyed.windows(labelled))
    elif job.window.type == "count":
        windowed = keyed.count_window(*job.window.counts)
    else:
        windowed = asked(loaded, ("window",), partial(keyed.window, job.window.assigner))
    if job.firing is not None:
        windowed = asked(loaded, ("firing",), partial(windowed.trigger, job.firing.recipe))
    if job.allowed_lateness is not None:
        windowed = windowed.allowed_lateness(job.allowed_lateness)
    windowed = _spread(loaded, windowed)
    return windowed.options(every_firing=True) if job.every_firing else windowed


def _spread(loaded: LoadedJob, windowed: W) -> W:
    """What windows and interval joins have in common: where late rows go, and how the work is spread."""
    job: Any = loaded.job
    if job.sinks.late is not None or job.sinks.late_left is not None or job.sinks.late_right is not None:
        windowed = asked(loaded, ("sinks",), partial(windowed.side_output_late_data, "late"))
    for name in ("key_groups", "tasks", "memory_limit"):
        if getattr(job, name) is not None:
            windowed = asked(loaded, (name,), partial(windowed.options, **{name: getattr(job, name)}))
    return windowed


def _near_in_time(
    loaded: LoadedJob, left: pst.datastream.KeyedStream, right: pst.datastream.KeyedStream
) -> pst.datastream.WindowedResult:
    """The rows of the left stream with those of the right one around their times."""
    spec: Any = loaded.job.interval_join
    where = ("interval_join",)
    near = asked(loaded, ("right", "key"), partial(left.interval_join, right))
    pairs = asked(loaded, where, partial(near.between, spec.lower, spec.upper))
    pairs = pairs.lower_bound_exclusive() if spec.lower_exclusive else pairs
    pairs = pairs.upper_bound_exclusive() if spec.upper_exclusive else pairs
    pairs = _spread(loaded, pairs)
    return asked(loaded, where, partial(pairs.pairs, spec.how, suffixes=spec.suffixes))


def _computed(loaded: LoadedJob, windowed: pst.datastream.WindowedStream, found: Found | None) -> pst.datastream.WindowedResult:
    """What becomes of the rows of a window."""
    job: Any = loaded.job
    function = job.function
    if job.join is not None:
        how, suffixes = job.join.how, job.join.suffixes
        pairs: Callable[..., pst.datastream.WindowedResult] = windowed.pairs  # type: ignore[attr-defined]
        return asked(loaded, ("join",), partial(pairs, how, suffixes=suffixes))
    if job.panes:
        return asked(loaded, ("panes",), lambda: windowed.panes(*(each.recipe for each in job.panes)))
    if function is None or found is None:
        recipes = [each.recipe for each in loaded.job.aggregate]
        kept = windowed if loaded.job.keep is None else windowed.keep(*loaded.job.keep)
        return asked(loaded, ("aggregate",), lambda: kept.aggregate(*recipes))
    name, spec = function
    value, where = found.value, (name,)
    if isinstance(spec, ArrowFunctionSection):
        return asked(loaded, where, lambda: windowed.apply_arrow(value, spec.schema, all_windows=spec.all_windows))
    if isinstance(spec, ProcessSection):
        return asked(loaded, where, lambda: windowed.process(value, spec.schema, stateless=spec.stateless))
    return asked(loaded, where, lambda: windowed.apply(value, spec.schema))


__all__ = ["build", "find_function"]
