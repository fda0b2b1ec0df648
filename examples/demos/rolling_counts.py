"""The forum question: counts per user over the last 1, 12 and 24 hours in one pass, late rows included.

Run it with ``make demo-rolling``. Two days of clicks arrive in four micro-batches. One of them has only late rows, of a phone
that was offline. Each emitted value is compared with a plain count of the rows that had arrived.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import typer

from demos.shared import OUTPUT, Output, label_end, save_picture, say, time_axis, workshop
from hot_items.demo import read_output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Click = tuple[str, datetime]
START = datetime(2026, 3, 2, tzinfo=timezone.utc)
HOURS = {"1h": 1, "12h": 12, "24h": 24}
OFFLINE = START + timedelta(hours=34, minutes=20)
"""The time of the first late click. The clicks arrive at hour 35, up to 40 minutes late."""
LATE_BATCH = 2


def clicks_of(first: float, last: float, users: int, seed: int = 1) -> list[Click]:
    """Return made-up clicks between two hours after the start, in order: few at night, most in the evening."""
    chance = random.Random(f"{seed} {first}")  # noqa: S311 - made-up data
    minutes = [first * 60 + each for each in range(round((last - first) * 60))]
    busy = [minute for minute in minutes for _ in range(users) if chance.random() < 0.05 + 0.25 * (minute % 1440 / 1440)]
    return [(f"user{chance.randrange(users)}", START + timedelta(minutes=minute, seconds=30)) for minute in busy]


def batches(users: int) -> list[list[Click]]:
    """Return the micro-batches: 24 hours, 11 hours, the late clicks of one user, 13 hours."""
    late = [("user0", OFFLINE + timedelta(seconds=30 * each)) for each in range(30)]
    return [clicks_of(0, 24, users), clicks_of(24, 35, users), late, clicks_of(35, 48, users)]


def rolling_query(clicks: DataFrame) -> Any:
    """Return the whole query: three counts per user, every five minutes, and an hour for late rows."""
    import panestream as pst
    from panestream import agg

    return (
        pst.stream(clicks, time="ts", out_of_orderness="1 minute")
        .key_by("user")
        .rolling({"1h": "1 hour", "12h": "12 hours", "24h": "24 hours"}, every="5 minutes")
        .allowed_lateness("1 hour")
        .options(key_groups=2)
        .aggregate(agg.count().alias("n"))
    )


def wrong_values(rows: Sequence[Mapping[str, Any]], arrived: Sequence[Sequence[Click]]) -> int:
    """Return how many values differ from a count of the clicks that had arrived by their micro-batch."""
    times: dict[tuple[str, int], list[datetime]] = defaultdict(list)
    for number in range(len(arrived)):
        for user, at in (click for batch in arrived[: number + 1] for click in batch):
            times[user, number].append(at)
    wrong = 0
    for each in times.values():
        each.sort()
    for row in rows:
        known, end = times[row["user"], row["batch_id"]], row["as_of"]
        for label, hours in HOURS.items():
            counted = bisect_left(known, end) - bisect_left(known, end - timedelta(hours=hours))
            wrong += counted != row[f"n_{label}"]
    return wrong


def draw(rows: Sequence[Mapping[str, Any]], axes: Any) -> None:
    """Draw the values of one user over time, and arrows from the wrong to the corrected values."""
    from panestream.insight.drawing import BAR, FAINT, INK, LINE, MARK

    times = [row["as_of"] for row in rows]
    corrected = next(at for at, row in enumerate(rows) if row["batch_id"] == LATE_BATCH)
    for (label, hours), colour in zip(HOURS.items(), (BAR, FAINT, INK), strict=True):
        values = [row[f"n_{label}"] for row in rows]
        axes.step(times, values, where="post", color=colour, linewidth=1.6)
        label_end(axes, times[-1], values[-1], f"last {hours} h", colour)
        now = (times[corrected], values[corrected])
        axes.annotate("", now, (now[0], values[corrected - 1]), arrowprops={"arrowstyle": "-|>", "color": MARK, "linewidth": 2})
    gained = rows[corrected]["n_24h"] - rows[corrected - 1]["n_24h"]
    text = f"{gained} late clicks\ncorrect all three"
    axes.annotate(text, now, (-10, 2), textcoords="offset points", color=MARK, ha="right", va="bottom")
    gone = next((row for row in rows if row["as_of"] >= OFFLINE + timedelta(hours=12)), None)
    if gone is not None:
        place = (gone["as_of"], gone["n_12h"])
        axes.annotate("12 hours later\nthey leave again", place, (-10, 6), textcoords="offset points", color=FAINT, ha="right")
    axes.set_title(f"Clicks of {rows[0]['user']} in the last 1, 12 and 24 hours: one query, one pass", loc="left", color=INK)
    time_axis(axes, "%H:%M\n%-d %b")
    axes.margins(x=0.01)
    axes.set_ylim(0)
    axes.grid(axis="y", color=LINE, linewidth=0.6)


def show(spark: SparkSession, work: Path, picture: Path, *, users: int = 5) -> int:
    """Run the demo and return the number of wrong values."""
    import panestream as pst
    from panestream.testing import MicroBatches

    made = batches(users)
    source = MicroBatches(spark, work / "clicks", "user string, ts timestamp")
    for batch in made:
        source.add(batch)
    say("input", f"{sum(map(len, made)):,} clicks of {users} users over two days, {len(made[LATE_BATCH])} of them late")
    query = rolling_query(source.stream()).start(main=pst.ParquetSink(work / "out"), checkpoint=work / "checkpoint")
    query.await_termination()
    rows = [
        {**row, "batch_id": int(folder.name.partition("=")[2])}
        for folder in (work / "out").glob("batch_id=*")
        for row in read_output(folder)
    ]
    wrong = wrong_values(rows, made)
    values = len(rows) * len(HOURS)
    say("checked", f"{values:,} values, " + (f"{wrong:,} WRONG" if wrong else "each equal to a plain count of the clicks"))
    mine = sorted((row for row in rows if row["user"] == "user0"), key=lambda row: (row["batch_id"], row["as_of"]))
    at = next(number for number, row in enumerate(mine) if row["batch_id"] == LATE_BATCH)
    changes = (f"{label} {mine[at - 1][f'n_{label}']} -> {mine[at][f'n_{label}']}" for label in HOURS)
    say("late rows", f"corrected as of {mine[at]['as_of']:%d %b %H:%M}: {', '.join(changes)}")
    state = pst.state.read_checkpoint(spark, str(work / "checkpoint"), batch_id=LATE_BATCH)
    answer = str(pst.tools.why(state, key="user0", at=OFFLINE)).replace(str(work), "")
    say("why", indent(answer.partition("\n\nNot in the state")[0], "  ").lstrip())
    save_picture(picture, lambda axes, _: draw(mine, axes), "Counts of the last 1, 12 and 24 hours, corrected by late clicks")
    return wrong


def main(output: Output = OUTPUT) -> None:
    """Count clicks per user over the last 1, 12 and 24 hours in one pass, with late clicks."""
    with workshop("rolling counts") as (spark, work):
        wrong = show(spark, work, output / "rolling-counts.svg")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
