"""The keys of job files, and the error for each mistake: file, line, path, and the nearest right name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import panestream as pst
from panestream.errors import JobError
from panestream.jobs.aggregates import FUNCTIONS, Argument, aggregate_section, arguments_of, readers_of
from panestream.jobs.document import load_document, toml_lines
from panestream.jobs.loading import Overrides, load_job
from panestream.jobs.runner import open_listeners
from panestream.jobs.schema import integer, sql
from panestream.metrics import PrometheusMetrics
from panestream.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.watermarks import WatermarkStrategy
from tests.engine.costs import python_calls

JOB = """\
key = ["item_id"]

[source]
format = "csv"
path = "clicks"
schema = "item_id BIGINT, behavior STRING, timestamp BIGINT"

[event_time]
column = "timestamp"
unit = "seconds"

[watermark]
delay = "5 seconds"

[window]
type = "sliding"
size = "1 hour"
slide = "5 minutes"

[[aggregate]]
function = "count"
alias = "views"

[sinks.main]
format = "parquet"
path = "out/main"
"""

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def complaint(complaint):
    """Return the errors line by line."""
    return lambda *given, **overrides: complaint(*given, **overrides).splitlines()


def changed_job(old, new):
    assert JOB.count(old) == 1, old
    return JOB.replace(old, new)


def job_with(section, line):
    return changed_job(f"[{section}]\n", f"[{section}]\n{line}\n")


def test_plain_job_file_becomes_a_job(job_of, tmp_path):
    job = job_of(JOB)
    assert job.name == "job"
    assert job.mode == "stream"
    assert job.key == ("item_id",)
    assert job.window.assigner == SlidingEventTimeWindows.of("1 hour", "5 minutes")
    assert job.watermark.recipe == WatermarkStrategy.for_bounded_out_of_orderness("5 seconds")
    assert job.event_time.expression == "timestamp"
    assert [(each.function, each.name) for each in job.aggregate] == [("count", "views")]
    assert job.trigger.spark == {"availableNow": True}
    assert job.sinks.late is None
    assert job.source.path == str(tmp_path / "clicks")


def test_relative_paths_start_at_the_job_file_and_become_absolute(job_of, tmp_path):
    job = job_of(changed_job('"out/main"', '"elsewhere/x/.././main"'))
    assert job.sinks.main.path == str(tmp_path / "elsewhere" / "main")
    job = job_of(changed_job('"out/main"', f'"{tmp_path}/../elsewhere/main"'))
    assert job.sinks.main.path == str(tmp_path.parent / "elsewhere" / "main")
    assert job_of(changed_job('"out/main"', '"s3a://bucket/x/../y"')).sinks.main.path == "s3a://bucket/x/../y"


def test_checkpoint_of_a_stream_is_next_to_the_job_file_by_default(job_of, tmp_path):
    assert job_of(JOB).checkpoint == str(tmp_path / "job.checkpoint")
    assert job_of('checkpoint = "here"\n' + JOB).checkpoint == str(tmp_path / "here")
    assert job_of('mode = "batch"\n' + JOB).checkpoint is None


def test_key_is_optional_and_may_be_one_name(job_of):
    assert job_of(changed_job('key = ["item_id"]\n', "")).key == ()
    assert job_of(changed_job('["item_id"]', '"item_id"')).key == ("item_id",)


def test_day_in_utc_plus_8_is_a_window_with_an_offset(job_of):
    job = job_of(
        changed_job(
            'type = "sliding"\nsize = "1 hour"\nslide = "5 minutes"', 'type = "tumbling"\nsize = "1 day"\noffset = "-8 hours"'
        )
    )
    assert job.window.assigner == TumblingEventTimeWindows.of("1 day", "-8 hours")


@pytest.mark.parametrize(
    ("watermark", "recipe"),
    [
        ('strategy = "monotonous"', WatermarkStrategy.for_monotonous_timestamps()),
        ('strategy = "none"', WatermarkStrategy.no_watermarks()),
        (
            'delay = "1 minute"\nper_partition = "partition"\nidleness = "10 s"',
            WatermarkStrategy.for_bounded_out_of_orderness("1 minute").per_partition("partition").with_idleness("10 s"),
        ),
        ('delay = "1 s"\nper_key = "6 h"', WatermarkStrategy.for_bounded_out_of_orderness("1 second").per_key("6 hours")),
    ],
)
def test_job_file_can_have_every_watermark_strategy(job_of, watermark, recipe):
    assert job_of(changed_job('delay = "5 seconds"', watermark)).watermark.recipe == recipe


def test_event_time_is_parsed_from_strings_by_format_and_zone(job_of):
    text = changed_job('unit = "seconds"', "format = \"yyyy-MM-dd'T'HH:mm:ss\"")
    assert job_of(text).event_time.expression == "CAST(try_to_timestamp(`timestamp`, 'yyyy-MM-dd\\'T\\'HH:mm:ss') AS TIMESTAMP)"
    text = changed_job('unit = "seconds"', 'format = "HH:mm"\ntimezone = "Asia/Shanghai"')
    assert (
        job_of(text).event_time.expression
        == "CAST(try_to_timestamp(concat(`timestamp`, ' Asia/Shanghai'), 'HH:mm VV') AS TIMESTAMP)"
    )


def test_short_and_long_form_of_aggregates_are_equal(job_of):
    short = """
[aggregate]
views = "count"
all = "count(*)"
revenue = "sum(price * (1 - discount))"
best = { function = "max_by", column = "item_id", by = "price" }
three = { function = "top_k", column = "price", k = 3 }
whole = "complete(three)"
"""
    got = job_of(changed_job('[[aggregate]]\nfunction = "count"\nalias = "views"\n', short)).aggregate
    assert [(each.name, each.function, each.arguments) for each in got] == [
        ("views", "count", {}),
        ("all", "count", {}),
        ("revenue", "sum", {"column": "price * (1 - discount)"}),
        ("best", "max_by", {"column": "item_id", "by": "price"}),
        ("three", "top_k", {"column": "price", "k": 3}),
        ("whole", "complete", {"output": "three"}),
    ]


def test_an_aggregate_without_alias_is_named_after_function_and_column(job_of):
    job = job_of(changed_job('function = "count"\nalias = "views"', 'function = "sum"\ncolumn = "price * 2"'))
    assert job.aggregate[0].name == "sum_price_2"


def test_every_aggregate_of_the_library_can_be_used_in_job_files():
    from panestream.windowing import aggregates

    of_the_library = {name for name in aggregates.__all__ if name.islower()}
    assert of_the_library - set(FUNCTIONS) == {"user"}  # takes a Python object
    given = {"column": "price", "columns": ["page"], "by": "ts", "k": 20, "weight": "w", "edges": [1.5], "probability": 0.5}
    given |= {"other": "quantity", "half_life": "1 hour", "between": "linear", "lg_k": 8}
    given |= {"probabilities": [0.5, 0.9], "ignore_nulls": True, "relative_sd": 0.1, "output": "revenue"}
    for function, takes in FUNCTIONS.items():
        every = aggregate_section(function=function, **{name: given[name] for name in takes})
        assert every.recipe.name == every.name
        # Every argument of the library function arrives: without it, the recipe would differ.
        for name, argument in takes.items():
            if not argument.required:
                fewer = aggregate_section(function=function, **{each: given[each] for each in takes if each != name})
                assert replace(fewer.recipe, output_name=None) != replace(every.recipe, output_name=None), (function, name)


def test_aggregate_with_an_unsupported_argument_type_is_refused():
    def odd(expr: Any, edges: Iterable[float | Decimal] = (), *, how: bytes) -> Any:
        """Never called."""

    with pytest.raises(TypeError, match=r"'how' of agg.odd is of the type <class 'bytes'>, .* plain_arguments = False"):
        arguments_of(odd)
    odd.__annotations__["how"] = int | None
    assert list(arguments_of(odd)) == ["column", "edges", "how"]


def test_key_that_two_functions_read_differently_is_refused_at_once():
    takes = {"column": Argument("column", sql, required=True)}
    assert readers_of({"a": takes, "b": takes}) == {"column": sql}
    for name, other in (("column", integer(1)), ("name", sql)):
        with pytest.raises(TypeError, match=f"rename '{name}' of agg.b: in job files this key has another meaning"):
            readers_of({"a": takes, "b": {name: Argument(name, other, required=True)}})


def test_alias_that_is_a_number_is_refused(complaint):
    assert "job.yaml:1: aggregate.5.alias: must be a string, not an integer: 5" in complaint("aggregate: {5: count}", "job.yaml")


def test_sketch_and_ranking_functions_take_their_arguments(job_of):
    short = """
[aggregate]
users = { function = "approx_count_distinct", column = "user_id", relative_sd = 0.01 }
slow = { function = "approx_quantiles", column = "latency", probabilities = [0.5, 0.99] }
slower = { function = "approx_quantile", column = "latency", probability = 0.99, k = 500 }
bins = { function = "histogram", column = "latency", edges = [10, 100.5] }
latest = { function = "arg_max", columns = ["page", "price"], by = "ts" }
"""
    got = job_of(changed_job('[[aggregate]]\nfunction = "count"\nalias = "views"\n', short)).aggregate
    assert [repr(each.recipe) for each in got] == [
        "agg.approx_count_distinct('user_id', 0.01).alias('users')",
        "agg.approx_quantiles('latency', (0.5, 0.99)).alias('slow')",
        "agg.approx_quantile('latency', 0.99, 500).alias('slower')",
        "agg.histogram('latency', (10, 100.5)).alias('bins')",
        "agg.arg_max('ts', 'page', 'price').alias('latest')",
    ]


def test_spark_settings_may_be_nested_quoted_or_without_their_first_word(job_of):
    text = JOB + '[spark]\nmaster = "local[2]"\nsql.shuffle.partitions = 4\n"spark.ui.enabled" = false\n'
    assert job_of(text).spark == {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


def test_a_schema_may_be_a_table_and_options_pass_through(job_of):
    text = changed_job(
        'schema = "item_id BIGINT, behavior STRING, timestamp BIGINT"',
        'options = { sep = "\\t", mode = "FAILFAST", n = 3, x = true }',
    )
    text = text.replace("[event_time]", '[source.schema]\nitem_id = "BIGINT"\n"a `b" = "STRUCT<x: INT>"\n[event_time]')
    source = job_of(text).source
    assert source.schema == "`item_id` BIGINT, `a ``b` STRUCT<x: INT>"
    assert source.options == {"sep": "\t", "mode": "FAILFAST", "n": "3", "x": "true"}


def test_command_line_overrides_input_output_mode_and_checkpoint(job_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = job_of('checkpoint = "old"\n' + JOB, input=Path("in.csv"), output=Path("o"), mode="stream")
    assert job.source.path == str(tmp_path / "in.csv")
    assert job.sinks.main.path == str(tmp_path / "o" / "main")
    assert job.checkpoint == str(tmp_path / "o" / "checkpoint")
    assert job_of(JOB, output=Path("o"), checkpoint=Path("c")).checkpoint == str(tmp_path / "c")
    assert job_of(JOB, mode="batch").mode == "batch"
    assert (job_of(JOB, metrics_port=0).metrics.port, job_of(JOB).metrics) == (0, None)
    assert job_of(JOB + "[metrics]\nport = 1\njson_lines = 'm'\n", metrics_port=2).metrics.port == 2


def test_metrics_listen_on_localhost_by_default(job_of, tmp_path):
    metrics = job_of(JOB + "[metrics]\nport = 9464\njson_lines = 'm.jsonl'\n").metrics
    assert (metrics.address, metrics.json_lines) == ("127.0.0.1", str(tmp_path / "m.jsonl"))


def test_unavailable_metrics_are_reported_with_line_before_spark_starts(tmp_path):
    (tmp_path / "taken").mkdir()
    with PrometheusMetrics(0) as other:
        for text, told in (
            (f"port = {other.port}", "job.toml:28: metrics.port: .*in use"),
            ("json_lines = 'taken'", "job.toml:28: metrics.json_lines: "),
        ):
            (tmp_path / "job.toml").write_text(f"{JOB}[metrics]\n{text}\n")
            with pytest.raises(JobError, match=told):
                open_listeners(load_job(tmp_path / "job.toml"))
            assert not open_listeners(load_job(tmp_path / "job.toml", Overrides(mode="batch")))


# --- mistakes, each with its line, path and a hint


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("nme = 'x'\n" + JOB, "job.toml:1: nme: unknown key; did you mean 'name'?"),
        ("delay = '5 s'\n" + JOB, "job.toml:1: delay: unknown key here; it belongs into [watermark]"),
        ("mode = 'strem'\n" + JOB, "job.toml:1: mode: 'strem' is not known; did you mean 'stream'?"),
        ('name = "a\\u0007b"\n' + JOB, "job.toml:1: name: has control characters: 'a\\x07b'"),
        (changed_job('["item_id"]', '["item_id", 5]'), "job.toml:1: key[1]: must be a string, not an integer: 5"),
        (changed_job('["item_id"]', '["a", "a"]'), "job.toml:1: key[1]: 'a' is given twice"),
        (changed_job('["item_id"]', "3"), "job.toml:1: key: must be an array, not an integer: 3"),
        (job_with("source", "pth = 'x'"), "job.toml:4: source.pth: unknown key; did you mean 'path'?"),
        (job_with("source", "header = 'yes'"), "job.toml:4: source.header: must be true or false, not a string: 'yes'"),
        (job_with("source", "files_per_batch = 0"), "job.toml:4: source.files_per_batch: must be at least 1, not 0"),
        (
            job_with("source", "files_per_batch = true"),
            "job.toml:4: source.files_per_batch: must be an integer, not a boolean: true",
        ),
        (job_with("source", "where = 1"), "job.toml:4: source.where: must be a SQL expression in a string, not an integer: 1"),
        (
            job_with("source", "columns = { '2x' = 'a' }"),
            "job.toml:4: source.columns.2x: must be a name of letters, digits and underscores that does not begin with a digit, not '2x'",
        ),
        (
            job_with("source", "options.x = [1]"),
            "job.toml:4: source.options.x: must be a string, a number or a boolean, not an array: [1]",
        ),
        (
            job_with("source", "header = true\noptions = { Header = false }"),
            "job.toml:5: source.options: 'header' and source.header say the same: keep one of them",
        ),
        (changed_job('path = "clicks"\n', ""), "job.toml:3: source: 'path' is missing: format 'csv' reads files"),
        (changed_job('path = "clicks"', 'path = "a\\u0000b"'), "job.toml:5: source.path: has control characters: 'a\\x00b'"),
        (
            changed_job('schema = "item_id BIGINT, behavior STRING, timestamp BIGINT"\n', ""),
            "job.toml:3: source: 'schema' is missing: csv files do not say the types of their columns",
        ),
        (
            changed_job('"csv"\npath = "clicks"', '"rate"\nheader = true'),
            "job.toml:5: source.header: is for format 'csv', not for 'rate'",
        ),
        (
            changed_job('"csv"\npath = "clicks"', '"rate"\nfiles_per_batch = 1'),
            "job.toml:5: source.files_per_batch: is for files (csv, json, parquet, orc, text, delta, iceberg), not for format 'rate'",
        ),
        (
            changed_job('"csv"\npath = "clicks"', '"iceberg"\ntable = "a.b"'),
            "job.toml:6: source.schema: format 'iceberg' does not support 'schema': the table defines its columns",
        ),
        (
            changed_job('"csv"\npath = "clicks"', '"delta"\npath = "x"\ntable = "a.b"'),
            "job.toml:5: source.path: 'table' and 'path' exclude each other: keep one of them",
        ),
        (
            changed_job('"csv"\npath = "clicks"', '"delta"'),
            "job.toml:3: source: 'table' is missing: format 'delta' needs it, or a path",
        ),
        (changed_job('"csv"\npath = "clicks"', '"table"'), "job.toml:3: source: 'table' is missing: format 'table' needs it"),
        (
            changed_job('"csv"', '"table"'),
            "job.toml:5: source.path: format 'table' does not support 'path': name a table of the catalog",
        ),
        (
            job_with("source", "table = 't'"),
            "job.toml:4: source.table: is for formats 'delta', 'iceberg', 'table', not for 'csv'",
        ),
        (
            changed_job('"csv"\npath = "clicks"', '"iceberg"\ntable = "a.b"\noptions = { maxFilesPerTrigger = 1 }'),
            "job.toml:6: source.options: Iceberg does not support 'maxFilesPerTrigger': write files_per_batch",
        ),
        (
            changed_job(
                '"csv"\npath = "clicks"', '"delta"\ntable = "t"\nfiles_per_batch = 1\noptions = { maxFilesPerTrigger = 1 }'
            ),
            "job.toml:7: source.options: 'maxFilesPerTrigger' and source.files_per_batch say the same: keep one of them",
        ),
        (changed_job('column = "timestamp"\n', ""), "job.toml:8: event_time: 'column' is missing"),
        (
            changed_job('"seconds"', '"second"'),
            "job.toml:10: event_time.unit: 'second' is not known; did you mean 'seconds' or 'milliseconds'?",
        ),
        (
            job_with("event_time", "format = 'yyyy'"),
            "job.toml:11: event_time.unit: 'unit' is for numbers and 'format' for strings: keep one of them",
        ),
        (job_with("event_time", "timezone = 'UTC'"), "job.toml:9: event_time.timezone: is for strings: it needs 'format'"),
        (
            changed_job('unit = "seconds"', "format = 'HH'\ntimezone = 'Asia/Shangai'"),
            "job.toml:11: event_time.timezone: there is no time zone 'Asia/Shangai'; did you mean 'Asia/Shanghai'?",
        ),
        (
            job_with("event_time", "invalid = 'drop'"),
            "job.toml:9: event_time.invalid: 'drop' is not known; known here: fail, side_output",
        ),
        (
            job_with("event_time", "invalid = 'side_output'"),
            "job.toml:9: event_time.invalid: 'side_output' needs a [sinks.invalid] to put the rows",
        ),
        (
            JOB + "[sinks.invalid]\nformat = 'console'\n",
            "job.toml:27: sinks.invalid: would stay empty: set event_time.invalid = 'side_output'",
        ),
        (changed_job("delay =", "delai ="), "job.toml:13: watermark.delai: unknown key; did you mean 'delay'?"),
        (
            changed_job('delay = "5 seconds"\n', ""),
            "job.toml:12: watermark: 'delay' is missing: strategy 'bounded' must know how far rows may be behind, e.g. delay = '5 seconds'",
        ),
        (
            changed_job('delay = "5 seconds"', "delay = 5"),
            "job.toml:13: watermark.delay: must be a string such as '90 seconds', not 5",
        ),
        (
            changed_job('"5 seconds"', '"5 secnds"'),
            "job.toml:13: watermark.delay: the duration '5 secnds': unknown unit 'secnds'; did you mean 'second'?",
        ),
        (changed_job('"5 seconds"', '"-5 seconds"'), "job.toml:13: watermark.delay: must not be negative, not '-5 seconds'"),
        (
            job_with("watermark", "strategy = 'monotonous'"),
            "job.toml:14: watermark.delay: is for strategy 'bounded', not for 'monotonous'",
        ),
        (
            changed_job('delay = "5 seconds"', "strategy = 'none'\nidleness = '1 s'\nper_key = '1 h'"),
            "job.toml:13: watermark.strategy: strategy 'none' does not have watermarks: leave out 'per_key' and 'idleness'",
        ),
        (
            changed_job('type = "sliding"', 'type = "sliding"\nallowed_lateness = "1 h"'),
            "job.toml:17: window.allowed_lateness: is a key of the whole job: write allowed_lateness before the first [section]",
        ),
        (changed_job('"sliding"', '"sesion"'), "job.toml:16: window.type: 'sesion' is not known; did you mean 'session'?"),
        (
            changed_job('slide = "5 minutes"\n', ""),
            "job.toml:15: window: 'slide' is missing: every how long does a sliding window begin?",
        ),
        (
            changed_job('"sliding"', '"tumbling"'),
            "job.toml:18: window.slide: a tumbling window does not have a slide; did you mean type = 'sliding'?",
        ),
        (changed_job('"1 hour"', '"0 hours"'), "job.toml:17: window.size: must be positive, not '0 hours'"),
        (
            job_with("window", 'offset = "10 minutes"'),
            "job.toml:15: window: the offset of a sliding window must be smaller than its slide: offset '10 minutes', slide '5 minutes'",
        ),
        (
            changed_job('"count"', '"cont"'),
            "job.toml:21: aggregate[0].function: 'cont' is not known; did you mean 'count' or 'count_if'?",
        ),
        (changed_job('"count"', '"sum"'), "job.toml:20: aggregate[0]: 'column' is missing: function 'sum' needs it"),
        (
            changed_job('"count"', '"count"\nk = 3'),
            "job.toml:22: aggregate[0].k: is for functions 'approx_quantile', 'approx_quantiles' and 'top_k', not for 'count'",
        ),
        (changed_job('"count"', '"sum"\ncolum = "x"'), "job.toml:22: aggregate[0].colum: unknown key; did you mean 'column'?"),
        (
            changed_job('"count"', '"histogram"\ncolumn = "x"\nedges = [2, 1]'),
            "job.toml:20: aggregate[0]: agg.histogram: edges must be finite numbers, at least one, each larger than the one before, got (2, 1); write agg.histogram('x', [0, 10, 100])",
        ),
        (
            changed_job('"count"', '"approx_quantile"\ncolumn = "x"\nprobability = "half"'),
            "job.toml:23: aggregate[0].probability: must be a number, not a string: 'half'",
        ),
        (
            changed_job('"views"', '"my views"'),
            "job.toml:22: aggregate[0].alias: must be a name of letters, digits and underscores that does not begin with a digit, not 'my views'",
        ),
        (
            changed_job('"views"', '"item_id"'),
            "job.toml:20: aggregate: the output has a column 'item_id' already. Give the aggregate another 'alias'",
        ),
        (
            changed_job('alias = "views"\n', 'alias = "views"\n[[aggregate]]\nfunction = "count"\nalias = "views"\n'),
            "job.toml:23: aggregate[1]: there are two output columns 'views'; set 'alias'",
        ),
        (
            changed_job('[[aggregate]]\nfunction = "count"\nalias = "views"\n', '[aggregate]\nviews = "summ(price)"\n'),
            "job.toml:21: aggregate.views.function: 'summ' is not known; did you mean 'sum'?",
        ),
        (
            changed_job('[[aggregate]]\nfunction = "count"\nalias = "views"\n', '[aggregate]\nviews = "sum(price"\n'),
            "job.toml:21: aggregate.views: must be a function or function(column), not 'sum(price'",
        ),
        (
            changed_job('[[aggregate]]\nfunction = "count"\nalias = "views"\n', "[aggregate]\n"),
            'job.toml:20: aggregate: is empty: give at least one, e.g. clicks = "count"',
        ),
        (JOB + "[top]\nn = 0\nby = 'views'\n", "job.toml:28: top.n: must be at least 1, not 0"),
        (JOB + "[top]\nn = 3\nby = 'view'\n", "job.toml:29: top.by: there is no output column 'view'; did you mean 'views'?"),
        (changed_job('"parquet"', '"parket"'), "job.toml:25: sinks.main.format: 'parket' is not known; did you mean 'parquet'?"),
        (changed_job('path = "out/main"\n', ""), "job.toml:24: sinks.main: 'path' is missing: format 'parquet' needs it"),
        (
            changed_job('"parquet"\npath = "out/main"', '"table"\ntable = "db..t"'),
            "job.toml:26: sinks.main.table: must be table, db.table or catalog.db.table in plain names, not 'db..t'",
        ),
        (
            changed_job('"parquet"\npath = "out/main"', '"table"\ntable = "../t"'),
            "job.toml:26: sinks.main.table: must be table, db.table or catalog.db.table in plain names, not '../t'",
        ),
        (
            changed_job('"parquet"', '"console"'),
            "job.toml:26: sinks.main.path: is for formats 'parquet', 'json', 'csv' and 'orc', not for 'console'",
        ),
        (changed_job('"parquet"', '"iceberg"'), "job.toml:24: sinks.main: 'table' is missing: format 'iceberg' needs it"),
        (
            changed_job('"parquet"\npath = "out/main"', '"delta"\ntable = "t"\ntable_format = "iceberg"'),
            "job.toml:27: sinks.main.table_format: is for formats 'table' and 'merge', not for 'delta'",
        ),
        (
            JOB + "[sinks.late]\nformat = 'json'\npath = 'out/../out/main'\n",
            "job.toml:27: sinks.late: writes to the same place as sinks.main",
        ),
        (
            changed_job('"out/main"', '"clicks/out"'),
            (
                "job.toml:24: sinks.main: is inside of the input of source (clicks), so the job would read its own output. "
                "Put them side by side"
            ),
        ),
        (
            changed_job('"out/main"', '"out"').replace('path = "clicks"', 'path = "out/in/*.csv"'),
            (
                "job.toml:24: sinks.main: is a folder that contains source (out/in/*.csv): readers of one would find files of the other. "
                "Put them side by side"
            ),
        ),
        (
            changed_job('"out/main"', '"out"').replace('path = "clicks"', 'path = "out/*.csv"'),
            (
                "job.toml:24: sinks.main: is a folder that contains source (out/*.csv): readers of one would find files of the other. "
                "Put them side by side"
            ),
        ),
        (
            'checkpoint = "clicks/state"\n' + JOB,
            (
                "job.toml:1: checkpoint: is inside of the input of source (clicks), so the job would read its own output. "
                "Put them side by side"
            ),
        ),
        (
            JOB + "[sinks.late]\nformat = 'json'\npath = 'out/main/late'\n",
            (
                "job.toml:27: sinks.late: and sinks.main are nested: readers of the outer folder would find files of the inner folder. "
                "Put them side by side"
            ),
        ),
        (JOB + "[sinks.lat]\nformat = 'console'\n", "job.toml:27: sinks.lat: unknown key; did you mean 'late'?"),
        (changed_job("[sinks.main]", "[sinks.man]"), "job.toml:24: sinks.man: unknown key; did you mean 'main'?"),
        (
            JOB + "[trigger]\nevery = '10 s'\navailable_now = true\n",
            "job.toml:28: trigger.every: 'available_now' and 'every' exclude each other: keep one of them",
        ),
        (
            JOB + "[trigger]\navailable_now = false\n",
            "job.toml:28: trigger.available_now: without it, set every = '10 seconds'",
        ),
        (JOB + "[spark]\nsql.x = [1]\n", "job.toml:28: spark.sql.x: must be a string, a number or a boolean, not an array: [1]"),
        (
            changed_job("[window]\n", "[window]\n[window.size]\nx = 1\n[w]\n"),
            "job.toml:16: window.size: must be a string such as '90 seconds', not {'x': 1}",
        ),
        (
            JOB + "[metrics]\naddress = '::'\n",
            "job.toml:27: metrics: is empty. Give port = 9464 for Prometheus, or json_lines = 'a file'",
        ),
        (JOB + "[metrics]\nport = 65536\n", "job.toml:28: metrics.port: 65536 is too large for a port, the largest is 65535"),
        (
            JOB + "[metrics]\njson_lines = 's3://b/m'\n",
            "job.toml:28: metrics.json_lines: must be a file of this machine, not s3://b/m",
        ),
        ("key = [\n", "job.toml:2: not valid TOML: Invalid value (column 1)"),
    ],
)
def test_mistake_is_reported_with_line_path_and_hint(complaint, text, answer):
    if "not valid TOML" in answer:  # The messages of tomllib differ between Python versions.
        assert complaint(text)[0].startswith("job.toml")
        assert "not valid TOML: " in complaint(text)[0]
        return
    assert answer in complaint(text)


def test_all_mistakes_are_reported_together_in_file_order(complaint):
    text = changed_job('"csv"', "7").replace("delay =", "delai =").replace('"parquet"', '"parket"')
    assert [line.split(": ")[0] for line in complaint(text)] == ["job.toml:4", "job.toml:13", "job.toml:25"]


def test_empty_job_file_reports_required_sections(complaint):
    assert complaint("") == [
        f"job.toml: {section!r} is missing" for section in ("source", "event_time", "watermark", "window", "aggregate", "sinks")
    ]


def test_output_option_needs_a_sink_that_writes_files(complaint):
    text = changed_job('"parquet"\npath = "out/main"', '"console"')
    assert complaint(text, output=Path("o")) == [
        "job.toml: --output is for sinks that write files, but this job does not have any"
    ]


def test_yaml_gives_the_same_job_as_toml(job_of):
    import yaml

    toml = job_of(JOB)
    (document,) = [load_document(Path(toml.checkpoint).with_name("job.toml")).data]
    assert job_of(yaml.safe_dump(dict(document), sort_keys=False), "job.yaml") == toml


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("window:\n  slid: 5 minutes\n", "job.yml:2: window.slid: unknown key; did you mean 'slide'?"),
        ("key: [a,\n  5]\n", "job.yml:2: key[1]: must be a string, not an integer: 5"),
        (
            "aggregate:\n- function: count\n- function: cuont\n",
            "job.yml:3: aggregate[1].function: 'cuont' is not known; did you mean 'count' or 'count_if'?",
        ),
        ("mode: batch\nmode: stream\n", "job.yml:2: 'mode' is given twice"),
        ("a: &x [1]\nb: *x\n", "job.yml:2: aliases (*x) are not supported in job files"),
        ("a: [1\nb: 2\n", "job.yml:2: not valid YAML: "),
        ("- a\n", "job.yml: a job file is a table of keys, this is list"),
        ("", "job.yml: a job file is a table of keys, this is empty"),
        ("!!python/object/apply:os.system ['true']\n", "job.yml:1: not valid YAML: "),
    ],
)
def test_mistake_in_yaml_is_reported_with_its_line(complaint, text, answer):
    assert any(line.startswith(answer) for line in complaint(text, "job.yml")), complaint(text, "job.yml")


def test_missing_unreadable_or_huge_job_files_are_refused(tmp_path, complaint):
    with pytest.raises(JobError, match="there is no such file"):
        load_job(tmp_path / "none.toml")
    assert complaint(JOB, "job.json") == ["job.json: a job file ends in .toml, .yaml or .yml"]
    (tmp_path / "latin.toml").write_bytes(b"a = 1\nb = '\xe9'\n")
    with pytest.raises(JobError, match=r"latin.toml:2: not UTF-8 text"):
        load_job(tmp_path / "latin.toml")
    (tmp_path / "big.toml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(JobError, match="too many for a job file"):
        load_job(tmp_path / "big.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(JobError, match=r"nested too deeply|not valid TOML"):
        load_job(tmp_path / "deep.toml")


NESTED = "nested too deeply for a job file"
HUGE = {
    "toml": [
        ("a = 1\nb = " + "9" * 5000, "job.toml:2: not valid TOML: Exceeds the limit (4300 digits)"),
        ("a = 1\nb = 0x" + "f" * 5000, "job.toml:2: b: a number of 20,000 bits is too large"),
        ("key_groups = " + "9" * 4000, "job.toml:1: key_groups: a number of 13,288 bits is too large"),
        (".".join("a" * 3000) + " = 1", f"job.toml:1: more than 1,000 dots in a line: {NESTED}"),
        (f"[{'.'.join('a' * 3000)}]", f"job.toml:1: more than 1,000 dots in a line: {NESTED}"),
        ("a = {" + ".".join("a" * 100_000) + " = 1}", f"job.toml:1: more than 1,000 dots in a line: {NESTED}"),
        (".".join("a" * 900) + " = 1", f"job.toml:1: {NESTED}"),
        ("b = 1\na = " + "[" * 40 + "]" * 40, f"job.toml:2: {NESTED}"),
        ("a = " + "{a = " * 500 + "1" + "}" * 500, f"job.toml: {NESTED}"),
        ("a" * 500 + " = 1", "job.toml:1: " + "a" * 500 + ": the name of a key is short"),
        ("key = [" + "1," * 30_000 + "]", "job.toml: more than 20,000 values are too many"),
        ('a = 1\n"\\u001b[31mX" = 1', "job.toml:2: \\x1b[31mX: the name of a key is short, and without control characters"),
        ("[spark.a]\n'\u202ea' = 1", "job.toml:2: spark.a.\\u202ea: the name of a key is short, and without control"),
        ("a = 'x\x00'", "job.toml:1: not valid TOML: "),
    ],
    "yaml": [
        ("a: 1\nb: " + "9" * 5000, "job.yaml:2: a number of 5,000 characters is too large"),
        ("b: 0x" + "f" * 5000, "job.yaml:1: a number of 5,002 characters is too large"),
        ("b: " + "1:" * 5000 + "1", "job.yaml:1: a number of 10,001 characters is too large"),
        ("a: 1\nb: " + "[" * 20_000, f"job.yaml:2: {NESTED}"),
        ("b: " + "{a: " * 20_000, f"job.yaml:1: {NESTED}"),
        ("b:\n" + "- " * 20_000 + "1", f"job.yaml:2: {NESTED}"),
        ("? " * 20_000, f"job.yaml:1: {NESTED}"),
        ("a: [" + "1," * 50_000 + "]", "job.yaml:1: more than 20,000 values are too many"),
        ('a: 1\n"\\e[31mX": 1', "job.yaml:2: \\x1b[31mX: the name of a key is short, and without control characters"),
        ("a: 1\nb: 'x\x00'", "job.yaml:2: not valid YAML: the character '\\x00' is not allowed"),
        ("a: 1\nb: 2020-13-45", "job.yaml:2: not valid YAML: month must be in 1..12"),
    ],
}


@pytest.mark.parametrize(
    ("suffix", "text", "answer"),
    [(suffix, *case) for suffix, cases in HUGE.items() for case in cases],
    ids=[f"{suffix}-{place}" for suffix, cases in HUGE.items() for place in range(len(cases))],
)
def test_file_that_breaks_the_parser_is_refused_with_its_line(complaint, suffix, text, answer):
    (line,) = complaint(text, f"job.{suffix}")
    assert line.startswith(answer)
    assert len(line) < 700


def test_only_the_first_hundred_problems_are_shown(complaint):
    lines = complaint(JOB + "".join(f"a{place} = 1\n" for place in range(1000)))
    assert len(lines) == 101
    assert lines[-1] == "job.toml: more than 100 problems, of which these are the first"


def test_calls_to_read_a_file_grow_linearly():
    few, many = (python_calls(lambda size=size: toml_lines("[a]\nb = [1]\n" * size))[0] for size in (50, 500))
    assert many <= 12 * few


@pytest.mark.parametrize("path", ["file:../out", "file:out", "s3:bucket/out", "a:b"])
def test_incomplete_address_as_a_path_is_refused(complaint, path):
    (line,) = complaint(JOB.replace("out/main", path))
    assert line.startswith(f"job.toml:26: sinks.main.path: is neither an address nor a path: '{path}'.")


@pytest.mark.parametrize("path", ["~", "~/out", "~root/out", "~nobody-there/out"])
def test_path_that_starts_with_a_tilde_is_refused(complaint, path):
    """The home folder of the user who runs the job is outside of the job's folder, as ``..`` is."""
    (line,) = complaint(JOB.replace("out/main", path))
    assert line.startswith(f"job.toml:26: sinks.main.path: begins with a tilde: '{path}'. Write the home folder in full")
    assert line.endswith(f"'./{path}'")


@pytest.mark.parametrize("path", ["./~/out", "out/~root", "./~root"])
def test_tilde_inside_a_path_is_an_ordinary_character(job_of, tmp_path, path):
    assert job_of(JOB.replace("out/main", path)).sinks.main.path == str(tmp_path / path)


def test_line_numbers_are_right_for_all_toml_syntax():
    text = '''\
a = 1 # x = 2
"b.c".d = "x # \\" y"
m = """
foo = 1
""\\""" ""
arr = [ "a", # c
  'b#',
  [1, 2], {x = 1, "y z" = [1]} ]
[window]
 size = '1 hour'
[[aggregate]]
function = "count"
[[aggregate]]
function = "sum"
[aggregate.opt]
z = 2024-01-01T00:00:00
[ sinks . main ]
p = 1'''.replace('""\\""" ""', '""\\""""')
    lines = toml_lines(text)
    assert lines[("b.c", "d")] == 2
    assert lines[("arr",)] == 6
    assert [lines[("arr", index)] for index in range(4)] == [6, 7, 8, 8]
    assert lines[("arr", 3, "y z")] == 8
    assert lines[("window", "size")] == 10
    assert [lines[("aggregate", index)] for index in range(2)] == [11, 13]
    assert lines[("aggregate", 1, "opt", "z")] == 16
    assert lines[("sinks", "main", "p")] == 18
    assert ("foo",) not in lines


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_examples_are_valid_in_both_modes(example, mode):
    assert load_job(example, Overrides(mode=mode)).job.mode == mode


@pytest.mark.parametrize(
    ("sink", "recipe"),
    [
        ('"iceberg"\ntable = "ice.shop.views"', pst.TableSink("ice.shop.views", format="iceberg")),
        ('"delta"\ntable = "views"\noptions.mergeSchema = true', pst.TableSink("views", "delta", {"mergeSchema": "true"})),
        ('"merge"\ntable = "views"\ntable_format = "iceberg"', pst.MergeSink("views", ["item_id"], "iceberg")),
        (
            '"postgres"\ndsn = "host=db user=etl"\ntable = "shop.views"\npassword_variable = "DB_PASSWORD"',
            pst.sinks.PostgresSink("host=db user=etl", "shop.views", keys=["item_id"], password_variable="DB_PASSWORD"),
        ),
        (
            '"redis"\nurl = "redis://cache:6379/0"\nprefix = "views"\nkeys = ["town"]\nexpire_seconds = 60',
            pst.sinks.RedisSink("redis://cache:6379/0", "views", keys=["town"], expire_seconds=60),
        ),
    ],
)
def test_sinks_can_be_tables_and_serving_stores(job_of, sink, recipe):
    job = job_of(changed_job('"parquet"\npath = "out/main"', sink))
    assert job.sinks.main.recipe(job.key) == recipe


@pytest.mark.parametrize(
    ("sink", "answer"),
    [
        ("'postgres'\ntable = 't'\ndsn = 'host=db password=hunter2'", "main: a PostgresSink: a DSN contains a password"),
        ("'postgres'\ntable = 't'\ndsn = \"host=db hunter2\\t\"", "main.dsn: must be an address in one line, without a password"),
        ("'postgres'\ntable = 't'\ndsn = ['password=hunter2']", "main.dsn: must be an address in one line, without a password"),
        ("'postgres'\ntable = 't'\ndsn = 'host=db'\npassword = 'hunter2'", "main.password: unknown key; did you mean 'password_variable'?"),
        ("'redis'\nprefix = 'p'\nurl = 'redis://:hunter2@cache'", "main: a RedisSink: a URL contains a password"),
        ("'redis'\nprefix = 'p'\nurl = 'redis://cache'\npassword_variable = 'hunter2!'", "main.password_variable: must be the name of an"),
    ],
)  # fmt: skip
def test_password_in_a_job_file_is_refused_without_showing_it(complaint, sink, answer):
    [told] = complaint(changed_job('"parquet"\npath = "out/main"', sink))
    assert f": sinks.{answer}" in told
    assert "hunter2" not in told
