"""Random scenarios over all compatible features, with many exact boundaries. The same seed gives the same scenario."""

from __future__ import annotations

import random

EVENT, CLOCK = {"type": "event_time"}, {"type": "processing_time"}


def scenario(seed: int) -> dict:
    """Return a scenario without expectations."""
    rng = random.Random(seed)
    assigner, sizes, gaps = _assigner(rng)
    sessions = "session" in assigner["type"]
    by_processing_time = assigner.get("time") == "processing"
    trigger = None if assigner["type"] == "count" else _trigger(rng, sessions, by_processing_time, assigner["type"])
    ends = not ("continuous_event_time" in str(trigger) and assigner["type"] == "global")
    spec = {
        "name": f"random-{seed}",
        "assigner": assigner,
        "trigger": trigger,
        "evictor": _evictor(rng) if rng.random() < 0.3 and assigner["type"] != "count" else None,
        "allowed_lateness": rng.choice([0, 0, 1, max(sizes) // 2, max(sizes), 3 * max(sizes)]),
        "late_output": rng.random() < 0.5,
        "function": {"type": rng.choice(["list", "list", "reduce_sum", "aggregate_avg", "count", "context"])},
        "end_of_input": ends,
        "input": _input(rng, sizes, gaps, 0.25 if by_processing_time or "processing" in str(trigger) else 0.0),
    }
    if not ends:
        spec["input"] = [
            s if "element" not in s else {"element": {**s["element"], "ts": abs(s["element"]["ts"])}} for s in spec["input"]
        ]
    return spec


def _assigner(rng):
    time = {"time": "processing"} if rng.random() < 0.2 else {}
    kind = rng.choice(["tumbling", "tumbling", "sliding", "sliding", "session", "session", "dynamic_session", "global", "count"])
    if kind == "tumbling":
        size = rng.choice([1, 5, 7, 10, 20])
        return (
            {"type": kind, "size": size, "offset": rng.randint(1 - size, size - 1) if rng.random() < 0.4 else 0, **time},
            [size],
            None,
        )
    if kind == "sliding":
        size, slide = rng.choice(
            [(10, 5), (10, 2), (12, 4), (10, 4), (10, 3), (7, 5), (20, 3), (3, 10), (5, 6), (10, 10), (8, 1)]
        )
        offset = rng.randint(1 - slide, slide - 1) if rng.random() < 0.4 else 0
        return {"type": kind, "size": size, "slide": slide, "offset": offset, **time}, [size, slide], None
    if kind == "session":
        gap = rng.choice([1, 3, 5, 8, 12])
        return {"type": kind, "gap": gap, **time}, [gap], None
    if kind == "dynamic_session":
        return {"type": kind, **time}, [10], rng.choice([[1, 5, 9], [3, 11], [2, 3, 4, 30]])
    if kind == "global":
        return {"type": kind, **({"end_of_stream": True} if rng.random() < 0.2 else {})}, [10], None
    return {"type": kind, "size": rng.choice([0, 1, 2, 3, 5]), "slide": rng.choice([None, None, 1, 2, 3, 7])}, [10], None


def _trigger(rng, sessions, by_processing_time, kind):
    if rng.random() < 0.35:
        return None
    interval = rng.choice([1, 2, 3, 5, 7])
    simple = [
        EVENT,
        CLOCK,
        {"type": "count", "count": rng.choice([0, 1, 2, 3, 4])},
        {"type": "continuous_event_time", "interval": interval},
        {"type": "continuous_processing_time", "interval": interval},
    ]
    if kind == "global":
        simple[1] = simple[0]  # the clock never reaches the end of a global window
    if by_processing_time:
        simple[0] = simple[1]
    if not sessions:
        simple += [{"type": "delta", "threshold": rng.choice([-3.0, 0.0, 2.0, 5.0])}, {"type": "never"}]
    trigger = rng.choice(simple)
    if rng.random() < 0.35:
        trigger = {"type": "purging", "inner": trigger}
    if not sessions and rng.random() < 0.2:
        timeout = {
            "timeout": rng.choice([0, 1, 4, 9]),
            "reset_on_each_record": rng.random() < 0.5,
            "clear_on_timeout": rng.random() < 0.5,
        }
        trigger = {"type": "processing_timeout", "inner": trigger, **timeout}
    return trigger


def _evictor(rng):
    after = rng.random() < 0.4
    return rng.choice(
        [
            {"type": "count", "count": rng.choice([0, 1, 2, 3, 5]), "after": after},
            {"type": "time", "size": rng.choice([0, 1, 3, 5, 10]), "after": after},
            {"type": "delta", "threshold": rng.choice([-2.0, 0.0, 1.0, 5.0, 10.5]), "after": after},
        ]
    )


def _input(rng, sizes, gaps, clock_rate):
    keys = rng.choice([["a"], ["a", "b"], ["a", "b", "c", "d"]])
    spread, disorder = rng.choice([1, 3, 6, 10]), rng.choice([0, 3, 10, 25])
    late_rate = rng.choice([0.0, 0.1, 0.3])
    time = rng.choice([0, 0, -60, 1000])
    watermark, now, steps = None, 0, []
    for value in range(rng.randint(4, 45)):
        size = rng.choice(sizes)
        if rng.random() < clock_rate:
            now += rng.choice([1, 1, rng.randint(1, spread), size])
            steps.append({"processing_time": now})
        elif rng.random() < 0.28:
            aligned = time // size * size - rng.choice([0, 1, 2])
            jump = time + rng.randint(1, 3 * size) if rng.random() < 0.2 else time
            new_watermark = rng.choice(
                [time - rng.randint(0, disorder), aligned, (time if watermark is None else watermark) + rng.randint(1, 3), jump]
            )
            if watermark is None or new_watermark > watermark:
                watermark = new_watermark
                steps.append({"watermark": watermark})
        else:
            time += rng.randint(0, spread)
            ts = time - rng.randint(0, disorder)
            if rng.random() < late_rate:
                ts = time - rng.randint(0, 4 * max(sizes))
            if watermark is not None and rng.random() < 0.1:
                ts = watermark + rng.choice([-1, 0, 1])
            if rng.random() < 0.1:
                ts = ts // size * size - rng.choice([0, 1])
            element = {"key": rng.choice(keys), "ts": ts, "value": rng.choice([value, value, rng.randint(-20, 40)])}
            steps.append({"element": {**element, "gap": rng.choice(gaps)} if gaps else element})
    return steps
