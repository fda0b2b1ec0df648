"""Job files with two streams or with tiles: the resulting jobs, and the errors for mistakes, without Spark."""

from __future__ import annotations

import itertools

import pytest

from panestream.errors import JobError
from panestream.jobs.building import check_paths
from panestream.jobs.cli import described
from panestream.windowing.assigners import CalendarDays, TumblingEventTimeWindows

LEFT = """\
[left]
key = "user"
[left.source]
format = "csv"
path = "views"
schema = "user STRING, ad STRING, ts TIMESTAMP"
[left.event_time]
column = "ts"
[left.watermark]
delay = "5 seconds"
"""
RIGHT = LEFT.replace("left", "right").replace("views", "clicks").replace("5 seconds", "10 seconds")
WINDOW = '[window]\ntype = "tumbling"\nsize = "1 hour"\n'
COUNTED = '[window]\ntype = "global"\n[firing]\ntrigger = "count"\ncount = 2\n'
JOIN = '[join]\nright_suffix = "_click"\n'
AS_OF = '[asof_join]\ntolerance = "1 hour"\ndeletes = "ad IS NULL"\nright_suffix = "_click"\n'
NEAR = '[interval_join]\nlower = "-1 hour"\nupper = "0 seconds"\nright_suffix = "_click"\n'
OUT = '[sinks.main]\nformat = "parquet"\npath = "out"\n'
ONE = """\
key = "user"
[source]
format = "csv"
path = "clicks"
schema = "user STRING, price DOUBLE, ts TIMESTAMP"
[event_time]
column = "ts"
[watermark]
delay = "5 seconds"
"""
PANES = '[panes]\nn = "count"\nspent = "sum(price)"\n'


def text_of(*parts, left=LEFT, right=RIGHT, window=WINDOW, then=JOIN, out=OUT, before=""):
    return "".join([before, left, right, window, then, out, *parts])


def of_tiles(*parts, window=WINDOW, before="", then=PANES):
    return "".join([before, ONE, window, then, OUT, *parts])


def sink(tag):
    return f'[sinks.{tag}]\nformat = "parquet"\npath = "{tag}"\n'


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
def test_job_file_can_have_every_kind_of_join(loaded_of, how):
    job = loaded_of(text_of(f'how = "{how}"\nleft_suffix = "_view"\n', then="[join]\n", out="", window=WINDOW + OUT)).job
    assert (job.join.how, job.join.suffixes) == (how, ("_view", ""))
    assert job.window.assigner == TumblingEventTimeWindows.of("1 hour")
    assert [where for where, _ in job.streams] == [("left",), ("right",)]
    assert [each.source.path.rpartition("/")[2] for _, each in job.streams] == ["views", "clicks"]
    assert [each.watermark.delay for _, each in job.streams] == ["5 seconds", "10 seconds"]
    assert job.keys == ("user",)


def test_an_interval_join_needs_no_windows(loaded_of):
    job = loaded_of(text_of(then=NEAR + 'how = "full"\nlower_exclusive = true\n', window="", before="key_groups = 3\n")).job
    spec = job.interval_join
    assert (spec.lower, spec.upper, spec.lower_exclusive, spec.upper_exclusive) == ("-1 hour", "0 seconds", True, False)
    assert (spec.how, spec.suffixes, job.key_groups) == ("full", ("", "_click"), 3)


def test_an_as_of_join_needs_no_windows(loaded_of):
    job = loaded_of(text_of(then=AS_OF + 'how = "left"\n', window="")).job
    spec = job.asof_join
    assert (spec.direction, spec.tolerance, spec.deletes) == ("backward", "1 hour", "ad IS NULL")
    assert (spec.how, spec.suffixes, job.without_windows) == ("left", ("", "_click"), "asof_join")


@pytest.mark.parametrize(
    "then",
    [
        '[aggregate]\nviews = "count(left.ad)"\n',
        '[apply]\nfunction = "a:b"\nschema = "n INT"\n',
        '[apply_arrow]\nfunction = "a:b"\nschema = "n INT"\n',
        '[process]\nfunction = "a:b"\nschema = "n INT"\n',
    ],
)
def test_job_file_can_have_functions_and_aggregates_of_both_streams(loaded_of, then):
    job = loaded_of(text_of(then=then)).job
    assert job.join is None
    assert len(job.streams) == 2


def test_job_file_can_have_late_and_invalid_outputs_of_each_side(loaded_of):
    tags = [f"{tag}_{side}" for tag, side in itertools.product(("late", "invalid"), ("left", "right"))]
    sides = [side.replace('column = "ts"', 'column = "ts"\ninvalid = "side_output"') for side in (LEFT, RIGHT)]
    job = loaded_of(text_of(*map(sink, tags), left=sides[0], right=sides[1])).job
    assert [tag for tag, _ in job.sinks.items()] == ["main", *tags]


def test_description_of_a_join_names_both_sources_and_keys(loaded_of):
    told = dict(described(loaded_of(text_of()).job))
    assert [name for name in told if "source" in name or "key" in name] == [
        "left source",
        "right source",
        "left key",
        "right key",
    ]
    assert told["left source"].endswith("/views")
    assert told["right key"] == "user"


def test_processing_time_of_a_join_comes_from_a_column_of_each_side(loaded_of):
    clock = '[{0}.processing_time]\ncolumn = "ts"\n'
    window = WINDOW + 'time = "processing"\n'
    text = text_of(clock.format("left"), clock.format("right"), window=window)
    assert [each.processing_time.column for _, each in loaded_of(text).job.streams] == ["ts", "ts"]


def test_missing_input_of_both_sides_is_reported(loaded_of, tmp_path):
    with pytest.raises(JobError) as error:
        check_paths(loaded_of(text_of()))
    assert str(error.value).splitlines() == [
        f"{tmp_path}/job.toml:5: left.source.path: {tmp_path}/views does not exist",
        f"{tmp_path}/job.toml:15: right.source.path: {tmp_path}/clicks does not exist",
    ]


def without(text, line):
    assert text.count(line) == 1, line
    return text.replace(line, "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (text_of(right=""), "job.toml: 'right' is missing"),
        (text_of(right="", before='[source]\npath = "in"\n'), "job.toml: 'right' is missing. Jobs with two streams have [left] and jobs with one have [source]: keep one of them"),
        (text_of(left="", right=""), "'left' is missing\njob.toml: 'right' is missing"),
        (text_of(then=""), "job.toml: the two streams are not joined. Give [join], [interval_join], [asof_join] or a function"),
        (text_of(window=""), "'window' is missing"),
        (text_of(then=JOIN.replace("[join]", '[join]\nhow = "semi"')), "join.how: 'semi' is not known; it is called 'left_semi' here"),
        (text_of(then=JOIN.replace("[join]", '[join]\nhow = "left_outer"')), "join.how: 'left_outer' is not known; it is called 'left' here"),
        (text_of(then=JOIN.replace("[join]", '[join]\nhow = "iner"')), "join.how: 'iner' is not known; did you mean 'inner'?"),
        (text_of(then=NEAR + 'how = "outer"\n', window=""), "interval_join.how: 'outer' is not known; it is called 'full' here"),
        (text_of(then=NEAR + 'how = "lefty"\n', window=""), "interval_join.how: 'lefty' is not known; did you mean 'left'?"),
        (text_of(then=NEAR + 'how = "left_anti"\n', window=""), "interval_join.how: 'left_anti' is of joins in windows, [join]; here there are 'inner', 'left', "),
        (text_of(then=JOIN.replace("_click", "-click")), "join.right_suffix: must be letters, digits and underscores, not '-click'"),
        (text_of(then=JOIN.replace("right_suffix", "right_sufix")), "join.right_sufix: unknown key; did you mean 'right_suffix' or "),
        (text_of(before='lower = "1 hour"\n'), "job.toml:1: lower: unknown key here; it belongs into [interval_join]"),
        (text_of(left=without(LEFT, 'key = "user"\n')), "job.toml:1: left: 'key' is missing"),
        (text_of(left=LEFT.replace('"user"', "[]", 1)), "job.toml:2: left.key: is empty: rows of two streams meet by a key"),
        (text_of(left=LEFT.replace("[left]", "[left]\nfiring = 3")), "left.firing: unknown key here; it applies to both streams: write [firing]"),
        (text_of(right=RIGHT.replace('"user"', '["user", "ad"]', 1)), "right.key: has 2 columns, left.key has 1: give both as many"),
        (text_of(right=RIGHT.replace('"user"', '"rank"', 1)), "right.key[0]: the results have a column 'rank' already"),
        (text_of(left=LEFT.replace('"user"', '"left"', 1)), "left.key[0]: the results have a column 'left' already"),
        (text_of(right=RIGHT.replace('"user"', '["user", "user"]', 1)), "right.key[1]: 'user' is given twice"),
        (text_of(right=RIGHT.replace("delay", "delai")), "right.watermark.delai: unknown key; did you mean 'delay'?"),
        (text_of(right=RIGHT[: RIGHT.index("[right.watermark]")]), "job.toml:11: right: 'watermark' is missing"),
        (text_of(right=RIGHT[: RIGHT.index("[right.event_time]")]), "job.toml:11: right: 'event_time' is missing"),
        (
            text_of(right=RIGHT[: RIGHT.index("[right.event_time]")], window=COUNTED),
            "right: has no [event_time], but the other stream does. Give it to both, or to neither",
        ),
        (text_of(right=RIGHT.replace('schema = "user STRING, ad STRING, ts TIMESTAMP"\n', "")), "right.source: 'schema' is missing"),
        (text_of(before='key = "user"\n'), "job.toml:1: key: there are two streams, and each has its own: write left.key and right.key"),
        (text_of("[watermark]\ndelay = '1 s'\n"), "watermark: there are two streams, and each has its own"),
        (text_of("[source]\nformat = 'rate'\n"), "source: there are two streams, and each has its own"),
        (text_of(sink("late")), "sinks.late: the rows of two streams differ: write sinks.late_left and sinks.late_right"),
        (text_of(sink("invalid_left")), "sinks.invalid_left: would stay empty: set left.event_time.invalid = 'side_output'"),
        (
            text_of(right=RIGHT.replace('column = "ts"', 'column = "ts"\ninvalid = "side_output"')),
            "right.event_time.invalid: 'side_output' needs a [sinks.invalid_right] to put the rows",
        ),
        (
            text_of(left=LEFT + 'closing_after = "1 minute"\n', before="", then=JOIN + "[trigger]\nevery = '1 s'\n"),
            "left.watermark.closing_after: is about all input: give it to both streams, or to neither",
        ),
        (
            text_of(
                left=LEFT + 'closing_after = "1 minute"\n', right=RIGHT + 'closing_after = "1 minute"\n'
            ),
            "right.watermark.closing_after: needs a query that keeps running, trigger.every = '10 seconds'",
        ),
        (text_of('[right.processing_time]\ncolumn = "ts"\n'), "right.processing_time: nothing here is of processing time"),
        (text_of('[right.processing_time]\ncolumn = "ts"\n'), "left: has no [processing_time], but the other stream does"),
        (text_of(before="changelog = true\n"), "changelog: needs one row for each key and window, but a join has many"),
        (text_of('[top]\nn = 1\nby = "ad"\n'), "top: needs one row for each key and window, but a join has many"),
        (
            text_of(out='[sinks.main]\nformat = "merge"\ntable = "t"\n'),
            "sinks.main: keeps one row of each key, and [join] gives many: append them, e.g. format = 'parquet' or 'table'",
        ),
        (text_of("[aggregate]\nn = 'count'\n"), "join: 'aggregate' processes the rows already. Keep one of them"),
        (text_of(NEAR), "interval_join: 'join' processes the rows already"),
        (text_of(then=NEAR), "window: is about windows, but [interval_join] does not have windows. Leave it out"),
        (text_of(then=NEAR, window="", before="allowed_lateness = '1 s'\nwith_firing = true\n"), "job.toml:1: allowed_lateness: is about windows"),
        (text_of(then=NEAR, window="", before="allowed_lateness = '1 s'\nwith_firing = true\n"), "job.toml:2: with_firing: is about windows"),
        (text_of(then=NEAR.replace("-1", "1"), window=""), "interval_join.lower: '1 hour' is after the upper bound, '0 seconds'. Swap them"),
        (
            text_of(then=NEAR.replace("-1 hour", "0 seconds") + "upper_exclusive = true\n", window=""),
            "interval_join.lower: the interval is empty. Include its bounds, or move one",
        ),
        (text_of("[trigger]\nfire_at_end = true\n", then=NEAR, window=""), "trigger.fire_at_end: closes windows, but [interval_join] does not have windows"),
        (text_of(then=AS_OF), "window: is about windows, but [asof_join] does not have windows. Leave it out"),
        (text_of("[trigger]\nfire_at_end = true\n", then=AS_OF, window=""), "trigger.fire_at_end: closes windows, but [asof_join] does not have windows"),
        (text_of(then=AS_OF + 'direction = "forward"\n', window=""), "asof_join.deletes: is about values that are valid from their time on"),
        (text_of(then=AS_OF + 'direction = "backwards"\n', window=""), "asof_join.direction: "),
        (text_of(then=AS_OF + 'how = "full"\n', window=""), "asof_join.how: 'full' is"),
        (text_of(then=AS_OF, window="", left=LEFT[: LEFT.index("[left.event_time]")]), "left: 'event_time' is missing"),
        (text_of(then=NEAR.replace('upper = "0 seconds"\n', ""), window=""), "interval_join: 'upper' is missing"),
        (text_of(then=NEAR, window="", left=LEFT[: LEFT.index("[left.event_time]")]), "left: 'event_time' is missing"),
        (text_of(window=WINDOW.replace('"tumbling"', '"count"').replace('"1 hour"', "3")), "did you mean 'global', with trigger = 'count' in [firing]?"),
        (text_of(window=WINDOW.replace("tumbling", "look_back")), "window.type: looks back over one stream; of two, [interval_join]"),
        (text_of(window=WINDOW.replace("window", "windows.h")), "windows.h: rows of two streams meet in one kind of windows: write [window]"),
        (of_tiles(sink("late_left"), then="[aggregate]\nn = 'count'\n"), "sinks.late_left: is for jobs with two streams, [left] and [right]. With one stream write sinks.late"),
        (of_tiles("[join]\n", then=""), "job.toml: 'right' is missing. Jobs with two streams have [join] and jobs with one have [source]"),
    ],
)  # fmt: skip
def test_mistake_in_a_join_is_reported_with_line_path_and_hint(complaint, text, answer):
    assert answer in complaint(text)


def test_misspelled_section_is_not_also_reported_as_missing(complaint):
    """Missing windows and a missing join are not reported either. They are required only if there is no interval join."""
    answer = complaint(text_of(then=NEAR.replace("_join", "_jion"), window=""))
    assert answer == "job.toml:21: interval_jion: unknown key; did you mean 'interval_join'?"


def test_input_option_is_refused_for_two_streams(complaint, tmp_path):
    assert "job.toml: --input is for jobs with one source" in complaint(text_of(), input=tmp_path)


def test_output_option_moves_all_outputs_of_a_join(loaded_of, tmp_path):
    job = loaded_of(text_of(sink("late_left")), output=tmp_path / "there").job
    assert [each.path for _, each in job.sinks.items()] == [str(tmp_path / "there" / tag) for tag in ("main", "late_left")]


def test_source_can_select_columns(loaded_of, complaint):
    chosen = LEFT.replace('path = "views"', 'path = "views"\nselect = ["user", "ts", "upper(ad) AS shown"]')
    assert loaded_of(text_of(left=chosen)).job.left.source.select == ("user", "ts", "upper(ad) AS shown")
    assert "left.source.select: is empty: name the columns" in complaint(
        text_of(left=LEFT.replace("[left.source]", "[left.source]\nselect = []"))
    )
    beyond = LEFT.replace("[left.source]", '[left.source]\nselect = "(SELECT 1) AS one"')
    assert "left.source.select: must be an expression over the columns of a row" in complaint(text_of(left=beyond))


# --- tiles


def test_job_file_can_write_tiles(loaded_of):
    job = loaded_of(of_tiles(before='allowed_lateness = "1 day"\nchangelog = true\n')).job
    assert [(each.name, each.function) for each in job.panes] == [("n", "count"), ("spent", "sum")]
    days = loaded_of(of_tiles(window='[window]\ntype = "calendar_days"\nzone = "Europe/Paris"\n')).job
    assert days.window.assigner == CalendarDays.of(1, zone="Europe/Paris")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (of_tiles(then="[panes]\n"), "panes: is empty: give at least one"),
        (of_tiles(then="[panes]\nn = 'cuont'\n"), "panes.n.function: 'cuont' is not known; did you mean 'count' or 'count_if'?"),
        (of_tiles("[aggregate]\nn = 'count'\n"), "panes: 'aggregate' processes the rows already"),
        (
            of_tiles(window='[window]\ntype = "session"\ngap = "1 hour"\n'),
            "window.type: tiles need slices of event time: tumbling or calendar windows",
        ),
        (of_tiles(window=WINDOW + 'time = "processing"\n'), "window.type: tiles need slices of event time"),
        (
            of_tiles(window='[window]\ntype = "calendar_days"\nzone = "UTC"\nsize = 7\nslide = 1\n'),
            "window.slide: tiles do not overlap: leave it out",
        ),
        (of_tiles(window=WINDOW.replace("window", "windows.h")), "windows: the slices of one kind are enough for tiles"),
        (of_tiles("[firing]\ntrigger = 'count'\ncount = 1\n"), "firing: a tile is emitted when its slice ends"),
        (of_tiles("[top]\nn = 1\nby = 'n'\n"), "top: is about results, but tiles hold partial aggregates"),
        (of_tiles(before="every_firing = true\n"), "every_firing: is about results, but tiles hold partial aggregates"),
        (of_tiles().replace('key = "user"', 'key = "tile"'), "key[0]: the results have a column 'tile' already"),
    ],
)
def test_mistake_in_tiles_is_reported_with_line_path_and_hint(complaint, text, answer):
    assert answer in complaint(text)


def test_description_reports_a_pattern_without_matches(loaded_of, tmp_path):
    """Files may arrive later, so a missing file is not an error. It may be a typing mistake, so it is reported."""
    (tmp_path / "views.csv").touch()
    job = loaded_of(
        text_of(left=LEFT.replace('"views"', f'"{tmp_path}/v*.csv"'), right=RIGHT.replace('"clicks"', f'"{tmp_path}/c*.csv"'))
    ).job
    told = dict(described(job))
    assert told["right source"].endswith("c*.csv: nothing matches it yet")
    assert told["left source"].endswith("v*.csv")
