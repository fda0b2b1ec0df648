"""The results about key groups are saved point by point."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.groups import Configuration, Contestant, Kept, Point, configurations, page, parse

pytestmark = pytest.mark.full

OF = Configuration("sliding-10-2", 1_000, 1_000, 2, 2, 500, 4)


def point(of=OF, ms=100.0, native=50.0):
    beside = None if native is None else Contestant([native, 2 * native], 80, 1, 2, 3, 4)
    return Point(of, Contestant([ms, 2 * ms], 150, 1, 2, 3, 4), beside, 20, {"a": "b"}, {"cpu": "fast"}, "2026-11-24T08:00:00")


def keep(folder, *points):
    kept = Kept.read(folder / "groups.json")
    kept.points |= {point.of: point for point in points}
    kept.write(folder)


def test_later_run_replaces_only_its_own_points(tmp_path):
    other = replace(OF, groups=32)
    keep(tmp_path, point(), point(other, 400.0))
    keep(tmp_path, point(ms=90.0), point(replace(OF, keys=7), native=None))
    kept = Kept.read(tmp_path / "groups.json")
    assert {of: each.panestream.median for of, each in kept.points.items()} == {OF: 135, other: 600, replace(OF, keys=7): 150}
    assert kept.points[other] == point(other, 400.0)
    assert kept.points[replace(OF, keys=7)].native is None


def test_driver_times_survive_a_later_run(tmp_path):
    keep(tmp_path, point())
    kept = Kept.read(tmp_path / "groups.json")
    kept.driver = {1: 30.0, 1_000: 600.0}
    kept.write(tmp_path)
    keep(tmp_path, point(ms=90.0))
    assert Kept.read(tmp_path / "groups.json").driver == {1: 30.0, 1_000: 600.0}
    assert "| 1,000 | 600 |" in (tmp_path / "groups.md").read_text()


def test_page_lists_every_measured_configuration(tmp_path):
    keep(tmp_path, point(), point(replace(OF, groups=8), 140.0), point(replace(OF, rows=5), native=None))
    text = (tmp_path / "groups.md").read_text()
    assert "| 4 | 150 (100 to 200) | 150 | 75 (50 to 100) | 80 | **2.00** (2.00 to 2.00) |" in text
    assert "Each further key group: 15.0 ms, native 0.0 ms." in text
    assert "## sliding-10-2: 5 rows a micro-batch" in text
    assert json.loads((tmp_path / "groups.json").read_text())["points"][0]["of"]["rows"] == 5
    assert page(Kept())[0] == "# What a key group costs"


def test_command_line_options_give_all_combinations():
    given = ["--query", "sliding", "tumbling", "--rows", "10", "20", "--cores", "1", "2", "--groups", "3", "--keys", "4", "5"]
    found = list(configurations(parse([*given, "--batch-seconds", "2"])))
    assert len(found) == len(set(found)) == 16
    assert {(each.files, each.rate) for each in found if each.cores == 1} == {(1, 5), (1, 10)}
    assert {configuration.rate for configuration in configurations(parse([]))} == {10_000}
