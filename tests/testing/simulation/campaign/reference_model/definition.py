"""Windows by definition, written from the semantics and not from the operator. Everything is stored, and everything is replayed.

Nothing here is incremental. One list holds all accepted elements in the order of arrival. Every step computes the sessions again
from this list by joining spans. There are no timer objects, since every step checks every window for due times. Only state that
cannot be replayed is stored per key and window: the triggers' state, and what was purged or evicted.

Times are integers. Random plans are dicts in the words of the scenario format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

MIN, MAX = -(2**63), 2**63 - 1
Element: TypeAlias = Mapping[str, Any]
"""``key``, ``ts``, ``value``, and ``gap`` for sessions with a dynamic gap."""
Said: TypeAlias = tuple[bool, bool]
"""The result of a trigger: whether it fires, and whether it purges."""


@dataclass(eq=False)
class Win:
    """One window of one key in the definition."""

    start: Any  # None for the global window
    end: Any
    contents: list[Element] = field(default_factory=list)  # in the order of arrival, without purged and evicted elements
    count: int = 0  # count trigger
    last: Any = None  # delta trigger
    interval: int | None = None  # continuous triggers
    timeout: int | None = None  # processing timeout
    timers: set[tuple[str, int]] = field(default_factory=set)  # pending ("e"|"p", time)
    firings: int = 0

    @property
    def max(self) -> int:
        return MAX if self.end is None else self.end - 1


class Definition:
    """Run one scenario by definition. ``run`` returns steps, late, late_dropped like the scenario format."""

    def __init__(self, spec: Mapping[str, Any], latenesses: Mapping[int, int] | None = None) -> None:
        """Start without any input.

        Args:
            spec: the scenario.
            latenesses: new values of the allowed lateness, by the number of the step before which the query starts again.
        """
        self.spec, self.latenesses = spec, latenesses or {}
        a = spec["assigner"]
        self.kind = a["type"]
        self.by_processing_time = a.get("time") == "processing"
        self.event_time = not self.by_processing_time and self.kind not in ("global", "count")
        self.L = spec.get("allowed_lateness", 0)
        self.wm, self.now = MIN, 0
        self.shut = MIN  # end of windows that closed under an earlier lateness
        self.windows: dict[Any, list[Win]] = {}
        self.key_firings: dict[Any, int] = {}
        self.trigger: Any = spec.get("trigger")
        self.evictor: Any = spec.get("evictor")
        if self.kind == "count":
            if a.get("slide") is None:
                default, keep = {"type": "purging", "inner": {"type": "count", "count": a["size"]}}, None
            else:
                default, keep = {"type": "count", "count": a["slide"]}, {"type": "count", "count": a["size"], "after": False}
            self.trigger, self.evictor = self.trigger or default, self.evictor or keep
        if self.trigger is None:
            if self.kind == "global":
                self.trigger = {"type": "end" if a.get("end_of_stream") else "never"}
            else:
                self.trigger = {"type": "processing_time" if self.by_processing_time else "event_time"}
        self.out: list[dict[str, Any]] = []
        self.late: list[Element] = []
        self.dropped = 0
        self.outside = 0

    # ------------------------------------------------------------ input

    def run(self) -> tuple[list[list[dict[str, Any]]], list[list[Element]], int]:
        """Return all steps of the scenario: what each fired, what was late, and how many late elements were only counted."""
        steps, lates = [], []
        last = [{"watermark": MAX}] if self.spec.get("end_of_input", True) else []
        for number, step in enumerate([*self.spec["input"], *last]):
            if number in self.latenesses:
                self.start_again(self.latenesses[number])
            self.step(step)
            fired, late = self.taken()
            steps.append(fired)
            lates.append(late)
        return steps, lates, self.dropped

    def step(self, step: Mapping[str, Any]) -> None:
        """Process one element, or advance the watermark or the clock."""
        if "element" in step:
            self.on_element(step["element"])
        elif "watermark" in step:
            if step["watermark"] > self.wm:
                self.wm = step["watermark"]
                self.run_timers("e", self.wm)
        elif step["processing_time"] > self.now:
            self.now = step["processing_time"]
        self.run_timers("p", self.now - 1)

    def taken(self) -> tuple[list[dict[str, Any]], list[Element]]:
        """Return what was fired and what was late since the last call."""
        out, late = self.out, self.late
        self.out, self.late = [], []
        return out, late

    def spans_of(self, e: Element) -> list[tuple[Any, Any]]:
        a, t = self.spec["assigner"], self.now if self.by_processing_time else e["ts"]
        if self.kind in ("global", "count"):
            return [(None, None)]
        if self.kind == "tumbling":
            size, offset = a["size"], a.get("offset", 0)
            n = (t - offset) // size
            return [(n * size + offset, n * size + offset + size)]
        if self.kind == "sliding":
            size, slide, offset = a["size"], a["slide"], a.get("offset", 0)
            newest = (t - offset) // slide
            all_ = [(n * slide + offset, n * slide + offset + size) for n in range(newest, newest - size // slide - 2, -1)]
            return [(s, x) for s, x in all_ if s <= t < x]
        return [(t, t + (a["gap"] if self.kind == "session" else e["gap"]))]

    def cleanup(self, w: Win) -> int:
        return min(w.max + self.L, MAX) if self.event_time else w.max

    def closed(self, w: Win) -> bool:
        return self.event_time and (w.max <= self.shut or self.cleanup(w) <= self.wm)

    def start_again(self, lateness: int) -> None:
        """Keep closed windows closed, and silently close those that the new lateness closes."""
        if not self.event_time:
            return
        if self.wm > MIN:
            self.shut = max(self.shut, self.wm - self.L if self.wm < MAX else MAX)
        self.L = lateness
        for key, live in self.windows.items():
            self.windows[key] = [w for w in live if not self.closed(w)]
            for w in self.windows[key]:
                if w.end is not None and self.cleanup(w) < MAX:
                    w.timers.add(("e", self.cleanup(w)))

    def on_element(self, e: Element) -> None:
        live = self.windows.setdefault(e["key"], [])
        taken = False
        for start, end in self.spans_of(e):
            if self.kind in ("session", "dynamic_session"):
                w = self.joined(live, start, end)
            else:
                w = next((x for x in live if (x.start, x.end) == (start, end)), None) or Win(start, end)
            if self.closed(w):
                continue
            if w not in live:
                live.append(w)
            taken = True
            w.contents.append(e)
            self.obey(e["key"], w, self.element_says(self.trigger, w, e))
            if w in live and w.end is not None and self.cleanup(w) < MAX:
                w.timers.add(("e" if self.event_time else "p", self.cleanup(w)))
        if not taken and self.event_time and (e["ts"] <= self.shut or e["ts"] + self.L <= self.wm):
            if self.spec.get("late_output"):
                self.late.append(e)
            else:
                self.dropped += 1
        elif not taken:
            self.outside += 1

    def joined(self, live: list[Win], start: int, end: int) -> Win:
        """Return the session of an element's own span and all it touches, transitively (live sessions never touch each other)."""
        hit = sorted((w for w in live if w.start <= end and start <= w.end), key=lambda w: w.start)
        lo, hi = min([start, *(w.start for w in hit)]), max([end, *(w.end for w in hit)])
        if not hit:
            return Win(start, end)
        if len(hit) == 1 and (lo, hi) == (hit[0].start, hit[0].end):
            return hit[0]
        joined = Win(lo, hi)
        for w in hit:
            joined.contents += w.contents
            joined.count += w.count
            live.remove(w)
        pending = [w.interval for w in hit if w.interval is not None]
        if pending:
            joined.interval = min(pending)
            joined.timers.add(("e" if "event" in self.innermost()["type"] else "p", joined.interval))
        inner = self.innermost()["type"]
        if inner == "event_time" and joined.max > self.wm:
            joined.timers.add(("e", joined.max))
        if inner == "processing_time" and joined.max > self.now:
            joined.timers.add(("p", joined.max))
        live.append(joined)
        return joined

    def innermost(self) -> Mapping[str, Any]:
        t: Mapping[str, Any] = self.trigger
        while "inner" in t:
            t = t["inner"]
        return t

    # ------------------------------------------------------------ time

    def run_timers(self, which: str, until: int) -> None:
        """Process all due times in order, including those that come up meanwhile."""
        while True:
            due = [
                (t, n, k, w)
                for k, live in self.windows.items()
                for n, w in enumerate(live)
                for kind, t in w.timers
                if kind == which and t <= until
            ]
            # The window ends with the end of time and fires nothing, since it has no timer there.
            if not due:
                break
            t, _, key, w = min(due, key=lambda d: d[:2])
            w.timers.discard((which, t))
            self.obey(key, w, self.timer_says(self.trigger, w, which, t))
            if (which == "e") == self.event_time and t == self.cleanup(w):
                self.windows[key].remove(w)
                w.timers.clear()

    # ------------------------------------------------------------ triggers: (fire?, purge?)

    def element_says(self, t: Mapping[str, Any], w: Win, e: Element) -> Said:  # noqa: C901 - one table
        kind = t["type"]
        if kind == "purging":
            fire, purge = self.element_says(t["inner"], w, e)
            return fire, purge or fire
        if kind == "event_time":
            if w.max <= self.wm:
                return True, False
            w.timers.add(("e", w.max))
        elif kind == "processing_time":
            w.timers.add(("p", w.max))
        elif kind == "end":
            w.timers.add(("e", MAX))
        elif kind == "count":
            w.count += 1
            if w.count >= t["count"]:
                w.count = 0
                return True, False
        elif kind == "delta":
            if w.last is None:
                w.last = e
            elif e["value"] - w.last["value"] > t["threshold"]:
                w.last = e
                return True, False
        elif kind == "continuous_event_time":
            if w.max <= self.wm:
                return True, False
            w.timers.add(("e", w.max))
            if w.interval is None:
                self.next_interval(t, w, e["ts"], "e")
        elif kind == "continuous_processing_time":
            if w.interval is None:
                self.next_interval(t, w, self.now, "p")
        elif kind == "processing_timeout":
            fire, purge = self.element_says(t["inner"], w, e)
            if fire:
                self.forget(t, w)
                return fire, purge
            if w.timeout is not None and t["reset_on_each_record"]:
                w.timers.discard(("p", w.timeout))
                w.timeout = None
            if w.timeout is None:
                w.timeout = self.now + t["timeout"]
                w.timers.add(("p", w.timeout))
            return fire, purge
        return False, False

    def next_interval(self, t: Mapping[str, Any], w: Win, time: int, which: str) -> None:
        i = t["interval"]
        w.interval = min(time // i * i + i, w.max)
        w.timers.add((which, w.interval))

    def timer_says(self, t: Mapping[str, Any], w: Win, which: str, time: int) -> Said:
        kind = t["type"]
        if kind == "purging":
            fire, purge = self.timer_says(t["inner"], w, which, time)
            return fire, purge or fire
        if kind == "event_time":
            return which == "e" and time == w.max, False
        if kind == "processing_time":
            return which == "p", False
        if kind == "end":
            return which == "e" and time == MAX, False
        if kind in ("continuous_event_time", "continuous_processing_time"):
            if which != ("e" if "event" in kind else "p"):
                return False, False
            if time == w.max:
                return True, False
            if time == w.interval:
                w.interval = min(time + t["interval"], w.max)
                w.timers.add((which, w.interval))
                return True, False
            return False, False
        if kind == "processing_timeout":
            _, purge = self.timer_says(t["inner"], w, which, time)
            if t["clear_on_timeout"]:
                self.forget(t, w)
            return True, purge
        return False, False

    def forget(self, t: Mapping[str, Any], w: Win) -> None:
        """Clear the trigger's state."""
        kind = t["type"]
        if "inner" in t:
            if kind == "processing_timeout" and w.timeout is not None:
                w.timers.discard(("p", w.timeout))
                w.timeout = None
            self.forget(t["inner"], w)
        elif kind == "event_time":
            w.timers.discard(("e", w.max))
        elif kind == "processing_time":
            w.timers.discard(("p", w.max))
        elif kind == "count":
            w.count = 0
        elif kind == "delta":
            w.last = None
        elif kind.startswith("continuous") and w.interval is not None:
            w.timers.discard(("e" if "event" in kind else "p", w.interval))
            w.interval = None

    # ------------------------------------------------------------ firing

    def obey(self, key: Any, w: Win, says: Said) -> None:
        fire, purge = says
        if fire and w.contents:
            if self.evictor and not self.evictor["after"]:
                w.contents = self.kept(w.contents)
            w.firings += 1
            self.out.append({"key": key, "start": w.start, "end": w.end, "value": self.value(key, w)})
            if self.evictor and self.evictor["after"]:
                w.contents = self.kept(w.contents)
        if purge:
            w.contents = []

    def kept(self, elements: list[Element]) -> list[Element]:
        v = self.evictor
        if not elements:
            return []
        if v["type"] == "count":
            return elements[len(elements) - v["count"] :] if len(elements) > v["count"] else list(elements)
        if v["type"] == "time":
            newest = max(e["ts"] for e in elements)
            return [e for e in elements if not e["ts"] <= newest - v["size"]]
        return [e for e in elements if not elements[-1]["value"] - e["value"] >= v["threshold"]]

    def value(self, key: Any, w: Win) -> Any:
        kind, values = self.spec["function"]["type"], [e["value"] for e in w.contents]
        if kind == "list":
            return values
        if kind == "count":
            return len(values)
        if kind == "reduce_sum":
            return sum(values) if values else None
        if kind == "aggregate_avg":
            return sum(values) / len(values) if values else None
        self.key_firings[key] = self.key_firings.get(key, 0) + 1
        return {
            "elements": len(values),
            "window_firings": None if "session" in self.kind else w.firings,
            "key_firings": self.key_firings[key],
            "watermark": None if self.wm in (MIN, MAX) else self.wm,
        }
