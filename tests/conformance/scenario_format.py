"""The scenario format, from JSON to plans. Unknown words are errors, so that a test with a typing mistake cannot pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from panestream.engine.operators.row.contents import AggregateRows, KeepRows, ReduceRows, RowPlan
from panestream.engine.plan import WindowQuery
from panestream.errors import PanestreamError, did_you_mean
from panestream.windowing.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from panestream.windowing.assigners.global_windows import CountWindows
from panestream.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from panestream.windowing.functions import AggregateFunction, ProcessWindowFunction
from panestream.windowing.state import ValueStateDescriptor
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from tests.conformance.flink_bugs import sane_answer

LATE_TAG = "late"
_NEEDED = ("name", "assigner", "function", "input", "expected")
_OPTIONAL = ("note", "trigger", "evictor", "allowed_lateness", "late_output", "end_of_input", "list_order")


class ScenarioError(PanestreamError, ValueError):
    """A scenario does not follow the format. The message names the scenario and the word."""


class Element(NamedTuple):
    """A row of a scenario. ``gap`` is for dynamic sessions."""

    key: str
    ts: int
    value: int
    gap: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One input step: ``kind`` is ``element``, ``watermark`` or ``processing_time``."""

    kind: str
    element: Element | None = None
    time: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """The output of Flink: what fired (as written) and what was late per step, the number of dropped elements, and any refusal."""

    steps: list[list[Mapping[str, Any]]]
    late: list[list[Mapping[str, Any]]]
    late_dropped: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that was read and checked. :func:`plan_of` makes a plan from ``spec``.

    ``on_purpose`` is the reason if ``expected`` is not Flink's output.
    """

    name: str
    spec: Mapping[str, Any]
    steps: tuple[Step, ...]
    expected: Expected
    end_of_input: bool
    any_list_order: bool
    on_purpose: str | None = None

    @property
    def is_repeat(self) -> bool:
        """Whether it is one of every second random scenario, which are of the same kinds as the others."""
        return "-random-" in self.name and self.name[-1] in "13579"


def read_scenarios(path: Path) -> list[Scenario]:
    """Return all scenarios of a file.

    Raises:
        ScenarioError: the file is not JSON, or does not follow the format.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    if not isinstance(found, list):
        raise ScenarioError(f"{path}: a scenario file is a JSON array of scenarios")
    return [scenario_of(each) for each in found]


def scenario_of(found: Mapping[str, Any]) -> Scenario:
    """Read one scenario.

    Raises:
        ScenarioError: a word is unknown or missing.
    """
    name = str(found.get("name", "a scenario without a name"))
    _check(name, "scenario", found, (*_NEEDED, *_OPTIONAL), _NEEDED)
    expected, on_purpose = sane_answer(name, found["expected"])
    _check(name, "expected", expected, ("steps", "late", "late_dropped", "error"), ("steps", "late", "late_dropped"))
    for fired in (each for step in expected["steps"] for each in step):
        _check(name, "expected output", fired, ("key", "start", "end", "value"), ("key", "start", "end", "value"))
    order = found.get("list_order")
    if order not in (None, "any"):
        raise ScenarioError(f"{name}: list_order is 'any' or absent, not {order!r}")
    return Scenario(
        name,
        found,
        tuple(_step(name, step) for step in found["input"]),
        Expected(expected["steps"], expected["late"], expected["late_dropped"], expected.get("error")),
        found.get("end_of_input", True),
        order == "any",
        on_purpose,
    )


def _step(name: str, found: Mapping[str, Any]) -> Step:
    _check(name, "input step", found, ("element", "watermark", "processing_time"), ())
    if len(found) != 1:
        raise ScenarioError(f"{name}: an input step is one of element, watermark, processing_time, got {found!r}")
    ((kind, content),) = found.items()
    if kind != "element":
        return Step(kind, time=content)
    _check(name, "element", content, ("key", "ts", "value", "gap"), ("key", "ts", "value"))
    return Step(kind, Element(content["key"], content["ts"], content["value"], content.get("gap")))


def _check(name: str, what: str, found: Mapping[str, Any], known: Iterable[str], needed: Iterable[str]) -> None:
    if not isinstance(found, Mapping):
        raise ScenarioError(f"{name}: {what} is a JSON object, got {found!r}")
    names = list(known)
    for word in found:
        if word not in names:
            raise ScenarioError(f"{name}: unknown key {word!r} in {what}: {did_you_mean(word, names)}")
    for word in needed:
        if word not in found:
            raise ScenarioError(f"{name}: {what} lacks {word!r}")


# -------------------------------------------------------------------- plans


def plan_of(scenario: Scenario) -> RowPlan:
    """Return the plan of a scenario. Errors of refused parts pass through.

    Raises:
        ScenarioError: a word is unknown.
    """
    spec, name = scenario.spec, scenario.name
    kind = spec["assigner"].get("type")
    evictor = _evictor(name, spec.get("evictor"))
    trigger = _trigger(name, spec.get("trigger"))
    if kind == "count":
        _check(name, "assigner", spec["assigner"], ("type", "size", "slide"), ("size",))
        windows, default, keep = CountWindows(spec["assigner"]["size"], spec["assigner"].get("slide")).parts
        assigner: WindowAssigner = windows
        trigger, evictor = trigger or default, evictor or keep
    else:
        assigner = _assigner(name, spec["assigner"])
    function = spec["function"]
    _check(name, "function", function, ("type",), ("type",))
    return RowPlan(
        WindowQuery(assigner, trigger=trigger, evictor=evictor, allowed_lateness=spec.get("allowed_lateness", 0)),
        _named(name, "function", function["type"], _functions(isinstance(assigner, MergingWindowAssigner))),
        late_output=LATE_TAG if spec.get("late_output") else None,
        element_type=Element,
    )


def _named(name: str, what: str, word: Any, known: Mapping[str, Any]) -> Any:
    if word not in known:
        raise ScenarioError(f"{name}: unknown {what} {word!r}: {did_you_mean(str(word), known)}")
    return known[word]


def _gap_of(element: Element) -> int:
    if element.gap is None:
        raise ScenarioError(f"an element of a dynamic session lacks its gap: {element}")
    return element.gap


_ASSIGNERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tumbling": ("size", ("type", "size", "offset", "time")),
    "sliding": ("size", ("type", "size", "slide", "offset", "time")),
    "session": ("gap", ("type", "gap", "time")),
    "dynamic_session": ("type", ("type", "time")),
    "global": ("type", ("type", "end_of_stream")),
}


def _assigner(name: str, spec: Mapping[str, Any]) -> WindowAssigner:
    kind = spec.get("type")
    needed, known = _named(name, "assigner", kind, _ASSIGNERS)
    _check(name, "assigner", spec, known, (needed,))
    time = spec.get("time", "event")
    if time not in ("event", "processing"):
        raise ScenarioError(f"{name}: time is 'event' or 'processing', not {time!r}")
    by_clock = time == "processing"
    if kind == "tumbling":
        return (TumblingProcessingTimeWindows if by_clock else TumblingEventTimeWindows)(spec["size"], spec.get("offset", 0))
    if kind == "sliding":
        sliding = SlidingProcessingTimeWindows if by_clock else SlidingEventTimeWindows
        return sliding(spec["size"], spec["slide"], spec.get("offset", 0))
    if kind == "global":
        return GlobalWindows.create_with_end_of_stream_trigger() if spec.get("end_of_stream") else GlobalWindows.create()
    return (ProcessingTimeSessionWindows if by_clock else EventTimeSessionWindows)(spec["gap"] if kind == "session" else _gap_of)


def _delta(old: Element, new: Element) -> float:
    return float(new.value - old.value)


def _trigger(name: str, spec: Mapping[str, Any] | None) -> Trigger | None:
    if spec is None:
        return None
    words = ("type", "count", "interval", "threshold", "inner", "timeout", "reset_on_each_record", "clear_on_timeout")
    _check(name, "trigger", spec, words, ("type",))
    makers: dict[str, Callable[[], Trigger]] = {
        "event_time": EventTimeTrigger,
        "processing_time": ProcessingTimeTrigger,
        "count": lambda: CountTrigger(spec["count"]),
        "continuous_event_time": lambda: ContinuousEventTimeTrigger(spec["interval"]),
        "continuous_processing_time": lambda: ContinuousProcessingTimeTrigger(spec["interval"]),
        "delta": lambda: DeltaTrigger(spec["threshold"], _delta),
        "never": NeverTrigger,
        "purging": lambda: PurgingTrigger(_inner(name, spec)),
        "processing_timeout": lambda: ProcessingTimeoutTrigger(
            _inner(name, spec), spec["timeout"], spec["reset_on_each_record"], spec["clear_on_timeout"]
        ),
    }
    made: Trigger = _named(name, "trigger", spec["type"], makers)()
    return made


def _inner(name: str, spec: Mapping[str, Any]) -> Trigger:
    inner = _trigger(name, spec.get("inner"))
    if inner is None:
        raise ScenarioError(f"{name}: trigger {spec['type']!r} lacks 'inner'")
    return inner


def _evictor(name: str, spec: Mapping[str, Any] | None) -> Evictor | None:
    if spec is None:
        return None
    _check(name, "evictor", spec, ("type", "count", "size", "threshold", "after"), ("type",))
    after = spec.get("after", False)
    makers: dict[str, Callable[[], Evictor]] = {
        "count": lambda: CountEvictor(spec["count"], after),
        "time": lambda: TimeEvictor(spec["size"], after),
        "delta": lambda: DeltaEvictor(spec["threshold"], _delta, after),
    }
    made: Evictor = _named(name, "evictor", spec["type"], makers)()
    return made


# -------------------------------------------------------------------- the functions of the format


def _sum(a: Element, b: Element) -> Element:
    return a._replace(ts=max(a.ts, b.ts), value=a.value + b.value)


class _Value(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> list[Any]:
        return [None if elements[0] is None else elements[0].value]


class _Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Element, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> Any:
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class _Count(_Average):
    def get_result(self, accumulator: tuple[int, int]) -> int:
        return accumulator[1]


class _List(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> list[Any]:
        return [[element.value for element in elements]]


class _Context(ProcessWindowFunction):
    """A process function that uses its whole context: per-window state, per-key state, the watermark."""

    def __init__(self, merges: bool) -> None:
        self.merges = merges

    def process(self, key: Any, context: Any, elements: Any) -> list[Any]:
        watermark = context.current_watermark()
        return [
            {
                "elements": len(elements),
                "window_firings": None if self.merges else self._bump(context.window_state().get_state(_WINDOW_FIRINGS)),
                "key_firings": self._bump(context.global_state().get_state(_KEY_FIRINGS)),
                "watermark": None if watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP) else watermark,
            }
        ]

    @staticmethod
    def _bump(state: Any) -> int:
        state.update((state.value() or 0) + 1)
        count: int = state.value()
        return count

    def clear(self, context: Any) -> None:
        if not self.merges:
            context.window_state().get_state(_WINDOW_FIRINGS).clear()


_WINDOW_FIRINGS, _KEY_FIRINGS = ValueStateDescriptor("w"), ValueStateDescriptor("g")


def _functions(merges: bool) -> dict[str, Any]:
    return {
        "reduce_sum": ReduceRows(_sum, _Value()),
        "aggregate_avg": AggregateRows(_Average()),
        "count": AggregateRows(_Count()),
        "list": KeepRows(_List()),
        "context": KeepRows(_Context(merges)),
    }
