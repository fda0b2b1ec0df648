"""Made-up summaries with content that is hard to display."""

from __future__ import annotations

import random
from dataclasses import replace

from panestream.engine.inspection.reduce import MINUTE
from panestream.engine.inspection.summary import (
    BinCounts,
    GroupShown,
    KeyShown,
    PlanShown,
    SameBounds,
    SourceTimes,
    StateShown,
    Summary,
    TimersShown,
)

START = 1_767_225_600_000_000
HOUR = 60 * MINUTE
HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "$\\frac{1}{0}$ &amp; [bold]no markup[/bold]",
    "\x1b[2J\x00\x07\u202eevil",
    "k" * 5_000,
    "日本語 العربية 🎉",
    "",
    None,
)
PLAN = PlanShown(
    windows="SlidingEventTimeWindows.of('1 hour', '5 minutes')",
    operator="aligned panes",
    key=(("user", "string"),),
    results=("n", "total"),
    labels=(),
    groups=4,
    lateness=0,
    words="windows   SlidingEventTimeWindows.of('1 hour', '5 minutes')\noperator  aligned panes",
    by_processing_time=False,
    split=False,
)


def made(*, windows: int = 12, groups: int = 4, keys=("ann", "bob"), sources=("",), seed: int = 1, **others) -> Summary:
    """Make a summary of some windows over some key groups."""
    rng = random.Random(seed)
    ends = {START // (5 * MINUTE) + place: (rng.randint(1, max(1, windows // 6)), 50) for place in range(min(windows, 40))}
    bounds = [
        SameBounds(
            None,
            START + place * 5 * MINUTE - HOUR,
            START + place * 5 * MINUTE,
            2,
            None,
            1_000,
            48_000,
            *[START + place * 5 * MINUTE - 1] * 2,
        )
        for place in range(min(windows, 5))
    ]
    largest = tuple(KeyShown({"user": key}, 12, 1_200 - place, 56_000) for place, key in enumerate(keys)) if windows else ()
    shares = [rng.randint(50_000, 90_000) * (3 if place == 1 else 1) for place in range(groups)]
    whole = Summary(
        path="/data/checkpoints/hot-items",
        batch_id=17,
        planned=START + 9 * MINUTE,
        taken=START + 10 * MINUTE,
        plan=replace(PLAN, groups=groups),
        filters={},
        watermark=START - MINUTE,
        newest=START + 4 * MINUTE,
        clock=None,
        sources=tuple(
            SourceTimes(name, START + (4 - place % 4) * MINUTE, START - (1 + place % 4) * MINUTE, place == 2)
            for place, name in enumerate(sources)
        ),
        source_count=len(sources),
        windows=windows,
        keys=len(largest),
        rows=windows * 100,
        bytes=sum(shares) if windows else 0,
        due=windows,
        timeless=0,
        elements=0,
        late_dropped=None,
        ends=BinCounts(5 * MINUTE, ends),
        oldest=tuple(bounds),
        next=tuple(bounds),
        most_rows=largest,
        most_bytes=largest[::-1],
        groups=tuple(GroupShown(place, 3, 40, 4_000, 0, share if windows else 0) for place, share in enumerate(shares)),
        user_state=(),
        timers=(TimersShown("event", windows, START, START + HOUR),) if windows else (),
    )
    return replace(whole, **others)


def hostile() -> Summary:
    """Make a summary with names, keys and values that would affect a terminal or a page."""
    row = {
        "key": {"user": HOSTILE[0]}, "window": HOSTILE[1], "window_start": None, "window_end": "10000-01-01T00:00:00Z",
        "operator": "row operator", "key_group": 0, "results": {HOSTILE[2]: HOSTILE[3]}, "contents": None, "rows": None,
        "firings": 2, "last_firing": "early", "due": None, "closes": None, "bytes": None,
    }  # fmt: skip
    state = {
        "key": {"user": HOSTILE[0]},
        "of": "key",
        "name": HOSTILE[0],
        "window_start": None,
        "window_end": None,
        "value": HOSTILE[4],
    }
    element = {"key": {"user": HOSTILE[0]}, "windows": [], "place": 1, "time": None, "element": {"a": HOSTILE[1]}, "value": None}
    return made(
        keys=HOSTILE,
        sources=tuple(text for text in HOSTILE if text is not None),
        path=f"/data/{HOSTILE[1]}",
        plan=replace(PLAN, windows=HOSTILE[0], key=((HOSTILE[2], "string"),), results=HOSTILE[:2], words=f"a\n{HOSTILE[0]}"),
        filters={"key": (HOSTILE[0],)},
        oldest=(SameBounds(HOSTILE[0], None, None, 1, {"user": HOSTILE[1]}, None, 12, None, None),),
        user_state=(StateShown("trigger", HOSTILE[0], 3),),
        listed={"windows": (row,), "elements": (element,), "user_state": (state | {"key_group": 0},), "timers": ()},
    )


EVERY = {
    "ten windows": made(),
    "nothing": made(windows=0, watermark=None, newest=None, sources=(), planned=None, batch_id=None),
    "one key group": made(groups=1),
    "many key groups": made(groups=64, windows=100_000, sources=tuple(f"clicks-{place}" for place in range(16))),
    "many": made(groups=2_000, windows=100_000, sources=tuple(f"{place}" for place in range(1_000))),
    "hostile": hostile(),
    "no rows known": made(rows=None, most_rows=(), late_dropped=12, elements=7),
    "the end of all time": made(watermark=2**62, newest=-(2**62), ends=BinCounts(86_400 * 10**14, {-1: (1, 1), 1: (2, 1)})),
    "no key": made(plan=replace(PLAN, key=()), keys=(), most_rows=(KeyShown(None, 3, 3, 3),), clock=START),
}
"""Summaries by their special content."""
