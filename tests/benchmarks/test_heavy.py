"""The heavy cases have the promised rows, and their answers equal a definition without the window operators."""

from __future__ import annotations

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.heavy.cases import CASES, HOUR_US, START_US
from benchmarks.heavy.run import _in_a_process, _line, _told, page, parse

pytestmark = pytest.mark.full


def rows_of(name, rows):
    *tables, last = CASES[name].tables(rows)
    assert last.num_rows == 1
    assert last["key"].to_pylist() == [-1]
    assert last["ts"].cast(pa.int64())[0].as_py() > START_US + 9_000 * HOUR_US
    return pa.concat_tables(tables)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("burst", "large-rows", "wide")])
def test_answers_follow_from_the_rows(name):
    rows = rows_of(name, 5_000)
    keys, hours = rows["key"].to_numpy(), rows["ts"].cast(pa.int64()).to_numpy() // HOUR_US
    results = len(np.unique(np.stack([keys, hours]), axis=1).T)
    found = {"results": results, "n": rows.num_rows, "total": int(rows["value"].to_numpy().sum())}
    assert CASES[name].answer(5_000) == found


def test_hot_key_has_nine_tenths_of_the_rows():
    keys = rows_of("hot-apply", 10_000)["key"].to_numpy()
    assert (keys == 0).mean() == 0.9


def test_large_rows_have_a_megabyte_and_wide_ones_ten_thousand_columns():
    large, wide = rows_of("large-rows", 20), rows_of("wide", 30)
    assert set(pc.binary_length(large["text"]).to_pylist()) == {1_000_000}
    assert CASES["large-rows"].answer(20)["total"] == 20_000_000
    assert wide.num_columns == 10_000
    assert CASES["wide"].answer(30)["total"] == sum(wide.column(9_999).to_pylist())


def test_table_marks_failed_cases_and_wrong_answers():
    told = {"rows": 5, "seconds": 1.5, "rows_per_second": 3, "driver": 1, "jvm": 2, "worker": 3, "state_mb": 4, "right": True}
    lines = [_line("session", told), _line("session", {**told, "right": False}), _line("session", {"failed": "out of memory"})]
    assert "| 5 (full: 5,000,000) | 1.5 | 3 | 1 | 2 | 3 | 4 | right |" in lines[0]
    assert lines[1].endswith("**wrong** |")
    assert lines[2].endswith("| **failed: out of memory** |")
    assert lines[0] in page(parse([]), {"session": told})


def test_failed_or_hanging_case_is_reported_and_its_processes_end(tmp_path):
    """Replace Python by a launcher script that ignores its arguments."""
    hang = tmp_path / "hang.sh"
    hang.write_text("setsid sleep 1000 &\necho $! > $0.below\necho 'ValueError: too large'\nsleep 1000\n")
    fail = tmp_path / "fail.sh"
    fail.write_text("echo 'a line' >&2\necho 'panestream.errors.SinkError: no room'\nexit 3\n")
    options = {
        each: parse(["--launcher", "sh", str(each), "--minutes", "0.05", "--data", str(tmp_path)]) for each in (hang, fail)
    }
    failed, hung = _in_a_process(options[fail], "session"), _in_a_process(options[hang], "session")
    assert failed["failed"] == "panestream.errors.SinkError: no room"
    assert "a line" in failed["log"]
    assert hung["failed"] == "not done after 0.05 minutes; ValueError: too large"
    below = int((tmp_path / "hang.sh.below").read_text())
    assert not psutil.pid_exists(below) or psutil.Process(below).status() == psutil.STATUS_ZOMBIE


def test_reported_result_counts_only_with_exit_status_zero():
    log = 'HEAVY {"rows": 5}\n'
    assert _told(log, 0, in_time=True, minutes=1) == {"rows": 5}
    assert _told(log, 1, in_time=True, minutes=1)["failed"] == "exit status 1"
    assert _told("", 0, in_time=True, minutes=1)["failed"] == "exit status 0"
