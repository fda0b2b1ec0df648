"""The clicks and the picture of the example in the README. ``python scripts/readme_example.py`` draws the picture again."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "_static" / "readme.svg"
FILES = (
    [("10:02", "ann", 5.0), ("10:03", "bob", 8.0)],
    [("10:07", "ann", 4.0)],
    [("10:09", "ann", 6.0), ("10:12", "ann", 2.0)],
    [("10:08", "ann", 7.0)],
    [("10:17", "ann", 3.0)],
    [("10:04", "ann", 9.0), ("10:22", "ann", 1.0)],
)
"""The rows of each file: a time of 1 January 2026, a user, a price. The query reads one file in a micro-batch."""


def write_clicks(folder: Path) -> None:
    """Write the files as JSON lines, with modification times in their order."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(FILES):
        path = folder / f"{number}.json"
        lines = [json.dumps({"user": user, "price": price, "ts": f"2026-01-01 {clock}:00"}) for clock, user, price in rows]
        path.write_text("\n".join(lines), "utf-8")
        os.utime(path, (1_767_225_600 + number, 1_767_225_600 + number))


def picture() -> str:
    """Return the picture of ann's windows as SVG."""
    import panestream as pst

    harness = pst.testing.WindowTestHarness(
        pst.TumblingEventTimeWindows.of("10 minutes"),
        trigger=pst.ContinuousEventTimeTrigger.of("5 minutes"),
        reduce=lambda a, b: a + b,
        allowed_lateness="5 minutes",
        traced=True,
    )
    newest = datetime.min.replace(tzinfo=timezone.utc)
    for rows in FILES:
        for clock, user, price in rows:
            time = datetime.fromisoformat(f"2026-01-01T{clock}:00+00:00")
            newest = max(newest, time)
            if user == "ann":
                harness.process_element(price, time, key=user)
        harness.process_watermark(newest - timedelta(minutes=1))
    return pst.tools.timeline(harness, titles=["ann's revenue in windows of ten minutes"]).svg()


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
