"""The seed decides the sample, reach decides the tests, and the table adds up."""

from __future__ import annotations

import pytest

from tests.mutants.faults import Fault
from tests.mutants.planting import HUNG, IMPOSSIBLE, KILLED, SURVIVED, TimedTest, Verdict
from tests.mutants.reach import PACKAGE
from tests.mutants.report import Sample, as_markdown, lines_of, within
from tests.mutants.sampling import PACKAGES, Reached, drawn, in_reach, likeliest_tests, package_of, possible


def fault(number, module="engine/kernels/slicing.py", function="f"):
    return Fault(module, function, number, "sign", f"a + {number}", f"a - {number}", number)


def test_faults_count_for_their_package():
    found = possible(PACKAGE, ["engine/exchange", "spark/sinks", "windowing"])
    assert list(found) == ["engine/exchange", "spark/sinks", "windowing"]
    assert all(len(own) > 100 for own in found.values())
    assert {package_of(each.module) for each in found["spark/sinks"]} == {"spark/sinks"}
    assert any(each.module.startswith("spark/sinks/table_formats/") for each in found["spark/sinks"])
    assert all((PACKAGE / name).is_dir() for name in PACKAGES)


def test_order_of_faults_depends_on_the_seed_and_not_on_other_code():
    faults = [fault(number) for number in range(50)]
    assert drawn(faults, 1) == drawn(faults[::-1], 1)
    assert drawn(faults, 1) != drawn(faults, 2)
    assert sorted(each.number for each in drawn(faults, 1)) == list(range(50))
    more = drawn([*faults, *(fault(number) for number in range(50, 70))], 1)
    assert [each for each in more if each.number < 50] == drawn(faults, 1)


def test_tests_of_the_same_folder_come_first_and_second_cases_last():
    place = frozenset({"engine/kernels/slicing.py:f"})
    room, far = "tests/engine/kernels/test_slicing.py::", "tests/comparison/test_panes_random.py::"
    reach = [
        Reached(TimedTest(far + "test_b", 1.0), place),
        Reached(TimedTest(far + "test_a[1]", 0.2), place),
        Reached(TimedTest(far + "test_a[0]", 0.3), place),
        Reached(TimedTest(room + "test_c", 2.0), place),
        Reached(TimedTest(room + "test_d", 0.1), frozenset({"engine/kernels/slicing.py:g"})),
    ]
    order = [test.name for test in likeliest_tests(fault(1), reach, 60)]
    assert order == [room + "test_c", far + "test_a[1]", far + "test_b", far + "test_a[0]"]
    assert [test.name for test in likeliest_tests(fault(1), reach, 2.3)] == [room + "test_c", far + "test_a[1]"]
    assert in_reach([fault(1), fault(2, function="h")], reach) == [fault(1)]
    assert not likeliest_tests(fault(2, function="h"), reach, 60)


def test_tests_with_spark_come_last_ordered_by_clock_time():
    here = fault(2, "engine/plan.py")
    places = frozenset({here.place})
    reach = [
        Reached(TimedTest("tests/spark/test_running.py::test_a", 0.1, 4.0, spark=True), places),
        Reached(TimedTest("tests/spark/test_running.py::test_b", 0.1, 3.0, spark=True), places),
        Reached(TimedTest("tests/spark/test_running.py::test_c", 0.1, 9.0, spark=True), places),
        Reached(TimedTest("tests/engine/test_plan.py::test_d", 5.0, 9.0), places),
    ]
    names = [test.name[-1] for test in likeliest_tests(here, reach, 60, 8.0)]
    assert names == ["d", "b", "a"]
    assert [test.name[-1] for test in likeliest_tests(here, reach, 60)] == ["d", "b"]


def test_table_adds_up():
    verdicts = [
        Verdict(fault(1), KILLED, "t"),
        Verdict(fault(2), HUNG, "t"),
        Verdict(fault(3), SURVIVED, "3 tests"),
        Verdict(fault(4), SURVIVED, "4 tests"),
        Verdict(fault(5), IMPOSSIBLE, "other names"),
        Verdict(fault(6, "spark/sinks/foreach.py"), KILLED, "t"),
    ]
    equivalent = {fault(3).name: "The sum is of zeros."}
    lines = lines_of(verdicts, {"engine/kernels": 10, "spark/sinks": 5}, {"engine/kernels": 9, "spark/sinks": 2}, equivalent)
    assert [tuple(vars(line).values()) for line in lines] == [
        ("engine/kernels", 10, 9, 4, 2, 1, 1),
        ("spark/sinks", 5, 2, 1, 1, 0, 0),
        ("all", 15, 11, 5, 3, 1, 1),
    ]
    assert [line.survived for line in lines] == [1, 0, 1]
    assert lines[0].share == 2 / 3
    sample = Sample(7, "Seed 7: a few", lines, verdicts)
    page = as_markdown([sample], equivalent, ["A fact."])
    assert "| engine/kernels | 10 | 9 | 4 | 2 | 1 | 1 | 1 | 66.7 % |" in page
    assert "Of all faults that can be drawn it is, by chance of the sample (95 %, Wilson), 30.1 to 95.4 %." in page
    assert "Each package weighed by its faults: 77.8 %." in page
    assert sample.as_json(equivalent)["survivors"] == {fault(3).name: "The sum is of zeros.", fault(4).name: "a hole"}
    known, holes = page.split("Survivors that a test should notice")
    assert "a + 3 -> a - 3`\n  The sum is of zeros." in known
    assert "a + 4 -> a - 4`\n  survived 4 tests" in holes


@pytest.mark.parametrize(
    ("killed", "tried", "between"),
    [(95, 100, (0.8882, 0.9785)), (10, 10, (0.7225, 1.0)), (0, 5, (0.0, 0.4345)), (1, 1, (0.2065, 1.0))],
)
def test_interval_of_a_small_sample_is_wide(killed, tried, between):
    """Compare with published tables of Wilson's interval."""
    assert within(killed, tried) == pytest.approx(between, abs=5e-5)
