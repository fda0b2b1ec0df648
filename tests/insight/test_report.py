"""The page of a run: it loads no resources, runs no scripts, stays small, and describes what happened."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panestream.engine.kernels.columns import Ints
from panestream.insight.delays import Completeness, counted
from panestream.insight.report import draw_skew, notebook_of, page_of, sentence
from panestream.insight.report_points import LEVELS, MOST, ObservedDelays, Points, RunPoint
from panestream.insight.report_recording import RunReport, shown_settings
from tests.insight.runs import BEGAN, DELAY, EVERY, SECOND, failed, progress, recorded, stopped
from tests.insight.test_inspect import Page


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_page_of_a_run_loads_no_resources_and_runs_no_scripts(name):
    run = EVERY[name]().run
    for text in (page_of(run), notebook_of(run)):
        page = Page(text)
        assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base"} & set(page.tags)
        assert not [each for each in page.attributes if each[1].startswith("on")]
        targets = [value for _, attribute, value in page.attributes if attribute in ("href", "src", "xlink:href")]
        assert all(target.startswith("#") for target in targets)
        ids = [value for _, attribute, value in page.attributes if attribute == "id"]
        assert len(ids) == len(set(ids))
        assert len(text) < 900_000


def test_page_of_a_run_shows_outcome_and_pictures():
    text = " ".join(Page(page_of(recorded().run)).text)
    for each in (
        *("done: all there was has been read", "Throughput", "Windows over time", "Lag of event time", "Lateness"),
        *(
            "Skew between key groups",
            "Source partitions at the end",
            "topic:0",
            "panestream inspect out/checkpoint",
            "micro-batches",
        ),
        *("8,000 on time", "operator   aligned panes", "local[2]", "would have kept 99 %", "this run", "1 minute"),
    ):
        assert each in text, each
    assert "<b>topic:1</b>" in text


def test_page_of_a_failed_or_stopped_run_says_so():
    text = " ".join(Page(page_of(failed().run)).text)
    assert "SinkError: <img src=x onerror=alert(2)>\\x1b[2J" in text
    assert "This run has no known micro-batch" in text
    text = " ".join(Page(page_of(stopped().run)).text)
    assert "stopped, before its end; the same command goes on from there" in text
    assert "was not looked at, only how many were late" in text
    assert "There is one key group." in text


def test_page_of_a_run_without_matplotlib_has_tables_only(monkeypatch):
    run = recorded(10).run
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    page = Page(page_of(run))
    assert "svg" not in page.tags
    assert "this run" in page.text


def test_points_of_a_long_run_are_bounded_and_keep_all_counts():
    draw, points, every = random.Random(1), Points(), []
    for number in range(5_000):
        one = progress(number, draw)
        every.append(one)
        points.add(one, BEGAN + number * SECOND)
        assert len(points.points) <= MOST
    assert len(points.points) > MOST // 4
    for name, theirs in (("rows", "rows"), ("late", "late_rows"), ("busy_ms", "duration_ms"), ("on_time", "on_time_firings")):
        assert getattr(points.total, name) == sum(getattr(each, theirs) for each in every)
        assert sum(getattr(point, name) for point in points.points) == getattr(points.total, name)
    assert sum(point.batches for point in points.points) == points.total.batches == 5_000
    assert points.total.peak_bytes == max(each.state_bytes for each in every)
    assert [took for _, took, _ in points.slowest] == sorted((each.duration_ms for each in every), reverse=True)[:5]
    assert len({point.batches for point in points.points[:-1]}) == 1, "all points but the last are of as many micro-batches"
    assert sum(times for times, _ in points.heaviest.values()) == 5_000


def test_skew_is_the_maximum_divided_by_the_mean():
    one = RunPoint(0, 1, most_rows=60, judged_rows=100, most_us=10, operator_us=40, most_bytes=0, state_bytes=0, groups=4)
    assert one.skew == {"rows": 2.4, "time": 1.0}
    assert one.then(RunPoint(1, 2, most_rows=40, judged_rows=100, groups=4)).skew["rows"] == 2.0


def exact(times: Ints, frontier: int) -> Completeness:
    _, counts, largest = counted(np.maximum(frontier - times, 0))
    return Completeness.of(zip(largest.tolist(), counts.tolist(), strict=True))


@given(st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=300))
def test_delay_estimated_from_quantiles_keeps_the_promised_share(rows):
    """A delay estimated from quantiles keeps at least the promised share. It is exact if all rows are at one level."""
    times = np.array(sorted(rows), np.int64)
    # Spark returns the smallest value with at least this share of values up to it, and the minimum for level 0.
    quantiles = [int(times[max(int(np.ceil(level * len(times))), 1) - 1]) for level in LEVELS]
    found = ObservedDelays(DELAY)
    found.add(len(times), quantiles, 1_000 - DELAY - 1)
    right = exact(times, 1_000)
    assert found.completeness.rows == len(times)
    for share in (0.5, 0.9, 0.99, 1.0):
        assert found.completeness.delay_for(share) >= right.delay_for(share - 1 / len(times))
    assert found.completeness.delay_for(1.0) == right.delay_for(1.0)


def test_no_row_is_late_before_the_first_watermark():
    found = ObservedDelays(DELAY)
    found.add(10, [BEGAN] * len(LEVELS), None)
    assert found.completeness.delay_for(1.0) == 0
    found.add(0, [], 5)
    assert found.rows == 10


def test_sentence_names_delays_for_99_and_99_9_percent():
    assert re.fullmatch(
        r"A delay of .* would have kept 99 % and one of .* would have kept 99\.9 % of the rows\.", sentence(recorded().run)
    )
    assert sentence(failed().run) == ""


def test_report_of_one_micro_batch_gives_no_advice_about_the_delay():
    run = recorded(1).run
    told = "Any delay would have kept all rows: no row can be late in the first micro-batch, and there was no other."
    assert sentence(run) == told
    text = " ".join(Page(page_of(run)).text)
    assert told in text
    assert "this run" not in text, "a table of delays would be all zeros"


def test_skew_of_one_micro_batch_is_drawn_as_points():
    """A circle needs curves, and a line does not."""
    one, several = (draw_skew(recorded(batches).run.points.points)[0] for batches in (1, 3))
    curves = re.compile(r' d="[^"]*\bC [^"]*"', re.DOTALL)
    assert (bool(curves.search(one)), bool(curves.search(several))) == (True, False)


def test_unreadable_event_is_mentioned_in_the_report(tmp_path):
    report, seen = RunReport(), []
    told = report.beside(seen.append)
    told("no progress at all")
    assert seen == ["no progress at all"]
    report.write(tmp_path / "run.html")
    assert "1 event of Spark's could not be taken in" in (tmp_path / "run.html").read_text()


def test_report_replaces_an_older_file_atomically(tmp_path):
    target = tmp_path / "run.html"
    target.write_text("old")
    recorded(3).write(target)
    assert "Throughput" in target.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["run.html"]
    with pytest.raises(OSError, match="nowhere"):
        recorded(1).write(tmp_path / "nowhere" / "run.html")


def test_secret_settings_are_hidden():
    assert shown_settings({"spark.hadoop.fs.s3a.access.key": "A", "my.PASSWORD": "B", "spark.master": "local[2]"}) == [
        ("my.PASSWORD", "(not shown)"), ("spark.hadoop.fs.s3a.access.key", "(not shown)"), ("spark.master", "local[2]")
    ]  # fmt: skip
