"""The runner rejects faulty scenarios."""

from __future__ import annotations

import copy
import json

import pytest

from tests.conformance.runner import main

GOOD = {
    "name": "good",
    "assigner": {"type": "tumbling", "size": 10, "offset": 0},
    "trigger": None,
    "evictor": None,
    "allowed_lateness": 0,
    "late_output": False,
    "function": {"type": "list"},
    "input": [{"element": {"key": "a", "ts": 1, "value": 1}}, {"watermark": 9}, {"element": {"key": "a", "ts": 2, "value": 3}}],
    "expected": {
        "steps": [[], [{"key": "a", "start": 0, "end": 10, "value": [1]}], [], []],
        "late": [[], [], [], []],
        "late_dropped": 1,
    },
}


def changed_scenario(**changes):
    """Return a copy of GOOD with other values at dotted paths."""
    made = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *way, last = path.split("__")
        place = made
        for word in way:
            place = place[int(word) if word.isdigit() else word]
        place[int(last) if last.isdigit() else last] = value
    return made


def run(tmp_path, capsys, *scenarios, options=()):
    path = tmp_path / "scenarios.json"
    path.write_text(json.dumps(list(scenarios)))
    status = main([*options, str(path)])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--restore",), ("--executor", "harness")])
def test_right_scenario_passes(tmp_path, capsys, options):
    assert run(tmp_path, capsys, GOOD, options=options) == (0, "1 passed, 0 failed\n")


LATE = {"key": "a", "ts": 2, "value": 3}
WRONG = {
    "wrong value": (changed_scenario(expected__steps__1__0__value=[2]), "expected [[2]], got [[1]]"),
    "wrong window": (changed_scenario(expected__steps__1__0__end=11), '["a", 0, 11]: expected [[1]], got []'),
    "missing firing": (
        changed_scenario(expected__steps__1=[GOOD["expected"]["steps"][1][0]] * 2),
        "expected [[1], [1]], got [[1]]",
    ),
    "extra firing": (changed_scenario(expected__steps__1=[]), "expected [], got [[1]]"),
    "firing in another step": (changed_scenario(expected__steps=[[], [], GOOD["expected"]["steps"][1], []]), "step 1: "),
    "wrong number of steps": (changed_scenario(expected__steps=GOOD["expected"]["steps"][:3]), "steps: expected 3, got 4"),
    "wrong late": (changed_scenario(expected__late__2=[LATE]), "step 2: late: expected"),
    "late lists too short": (changed_scenario(expected__late=[[]]), "late: expected 1 steps, got 4"),
    "wrong late_dropped": (changed_scenario(expected__late_dropped=0), "late_dropped: expected 0, got 1"),
    "error expected but none": (changed_scenario(expected__error="IllegalArgumentException"), "error: expected 'IllegalArg"),
    "error but none expected": (changed_scenario(assigner__size=0), 'error: expected None, got "InvalidWindowError'),
    "unknown key": (
        changed_scenario(alowed_lateness=1),
        "unknown key 'alowed_lateness' in scenario: did you mean 'allowed_lateness'?",
    ),
    "unknown key of the assigner": (
        changed_scenario(assigner__ofset=1),
        "unknown key 'ofset' in assigner: did you mean 'offset'?",
    ),
    "unknown assigner": (changed_scenario(assigner={"type": "tumblin"}), "did you mean 'tumbling'?"),
    "unknown trigger": (changed_scenario(trigger={"type": "counted"}), "unknown trigger 'counted'"),
    "unknown evictor": (changed_scenario(evictor={"type": "all"}), "unknown evictor 'all'"),
    "unknown function": (changed_scenario(function={"type": "sum"}), "unknown function 'sum'"),
    "unknown step": (changed_scenario(input__1={"water": 9}), "unknown key 'water' in input step"),
    "two things in one step": (changed_scenario(input__1={"watermark": 9, "processing_time": 1}), "an input step is one of"),
    "element without a key": (changed_scenario(input__0={"element": {"ts": 1, "value": 1}}), "element lacks 'key'"),
    "unknown time": (changed_scenario(assigner__time="wall"), "time is 'event' or 'processing', not 'wall'"),
    "unknown list order": (changed_scenario(list_order="some"), "list_order is 'any' or absent"),
    "purging nothing": (changed_scenario(trigger={"type": "purging"}), "trigger 'purging' lacks 'inner'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_scenario_is_rejected(tmp_path, capsys, case):
    scenario, message = WRONG[case]
    status, printed = run(tmp_path, capsys, scenario)
    assert status == 1
    assert message in printed
    assert printed.endswith("0 passed, 1 failed\n")


def test_wrong_scenario_among_right_ones_is_counted(tmp_path, capsys):
    status, printed = run(tmp_path, capsys, GOOD, changed_scenario(expected__late_dropped=5), GOOD)
    assert status == 1
    assert printed.endswith("2 passed, 1 failed\n")


def test_file_that_is_not_json_fails(tmp_path, capsys):
    path = tmp_path / "broken.json"
    path.write_text("[{")
    assert main([str(path)]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_lists_are_compared_in_order_unless_list_order_is_any(tmp_path, capsys):
    two = changed_scenario(input__2={"element": {"key": "b", "ts": 12, "value": 4}}, expected__late_dropped=0)
    two["input"].append({"element": {"key": "b", "ts": 11, "value": 3}})
    two["expected"]["steps"] += [[{"key": "b", "start": 10, "end": 20, "value": [3, 4]}]]
    two["expected"]["late"].append([])
    assert run(tmp_path, capsys, two)[0] == 1
    assert run(tmp_path, capsys, {**two, "list_order": "any"})[0] == 0


def test_order_of_windows_and_keys_within_a_step_does_not_matter(tmp_path, capsys):
    both = changed_scenario(input__2={"element": {"key": "b", "ts": 2, "value": 3}}, input__1={"watermark": -5})
    step = [{"key": "b", "start": 0, "end": 10, "value": [3]}, {"key": "a", "start": 0, "end": 10, "value": [1]}]
    both["expected"] = {"steps": [[], [], [], step], "late": [[], [], [], []], "late_dropped": 0}
    assert run(tmp_path, capsys, both)[0] == 0


def test_scenario_that_leaves_state_or_timers_is_rejected(tmp_path, capsys, monkeypatch):
    from panestream.testing.harness import WindowTestHarness

    monkeypatch.setattr(WindowTestHarness, "num_timers", lambda self: 1)
    status, printed = run(tmp_path, capsys, GOOD)
    assert status == 1
    assert "0 state entries and 1 timers are left" in printed


def test_flinks_bug_is_corrected_only_in_a_scenario_that_expects_it(tmp_path, capsys):
    """A scenario of that name with another expectation is compared as written."""
    status, _ = run(tmp_path, capsys, changed_scenario(name="quirk-session-merge-count-evictor", expected__late_dropped=7))
    assert status == 1
