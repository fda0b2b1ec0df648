"""The sample is decided by its seed, and the tests by what they reach; the table adds up."""

from __future__ import annotations

from tests.mutants.faults import Fault
from tests.mutants.planting import HUNG, IMPOSSIBLE, KILLED, SURVIVED, TimedTest, Verdict
from tests.mutants.reach import PACKAGE
from tests.mutants.report import as_markdown, lines_of
from tests.mutants.sampling import PACKAGES, Reached, drawn, in_reach, likeliest_tests, package_of, possible


def fault(number, module="engine/kernels/slicing.py", function="f"):
    return Fault(module, function, number, "sign", f"a + {number}", f"a - {number}", number)


def test_every_package_has_faults_that_count_for_it():
    found = possible(PACKAGE, ["engine/exchange", "spark/sinks", "windowing"])
    assert list(found) == ["engine/exchange", "spark/sinks", "windowing"]
    assert all(len(own) > 100 for own in found.values())
    assert {package_of(each.module) for each in found["spark/sinks"]} == {"spark/sinks"}
    assert any(each.module.startswith("spark/sinks/table_formats/") for each in found["spark/sinks"])
    assert all((PACKAGE / name).is_dir() for name in PACKAGES)


def test_the_seed_decides_and_a_larger_sample_begins_with_the_smaller():
    faults = [fault(number) for number in range(50)]
    assert drawn(faults, 1, "engine") == drawn(faults[::-1], 1, "engine")
    assert drawn(faults, 1, "engine") != drawn(faults, 2, "engine")
    assert sorted(each.number for each in drawn(faults, 1, "engine")) == list(range(50))


def test_tests_of_the_room_come_first_then_the_cheap_and_second_parameters_last():
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


def test_the_table_adds_up():
    verdicts = [
        Verdict(fault(1), KILLED, "t"),
        Verdict(fault(2), HUNG, "t"),
        Verdict(fault(3), SURVIVED, "3 tests"),
        Verdict(fault(4), SURVIVED, "4 tests"),
        Verdict(fault(5), IMPOSSIBLE, "other names"),
        Verdict(fault(6, "spark/sinks/foreach.py"), KILLED, "t"),
    ]
    equivalent = {fault(3).name: "The sum is of zeros."}
    lines = lines_of(verdicts, {"engine/kernels": 10, "spark/sinks": 5}, equivalent)
    told = [(line.package, line.possible, line.tried, line.killed, line.hung, line.equivalent, line.survived) for line in lines]
    assert told == [("engine/kernels", 10, 4, 2, 1, 1, 1), ("spark/sinks", 5, 1, 1, 0, 0, 0), ("all", 15, 5, 3, 1, 1, 1)]
    assert lines[0].share == 2 / 3
    page = as_markdown(lines, verdicts, equivalent, ["A fact."])
    assert "| engine/kernels | 10 | 4 | 2 | 1 | 1 | 1 | 66.7 % |" in page
    known, holes = page.split("## Survivors that a test should notice")
    assert "a + 3 -> a - 3`\n  The sum is of zeros." in known
    assert "a + 4 -> a - 4`\n  survived 4 tests" in holes
