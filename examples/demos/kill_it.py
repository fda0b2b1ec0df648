"""Kill it: a streaming job that is killed with ``kill -9`` at random moments still counts every row exactly once.

Run it with ``make demo-kill``. With ``--by-hand`` you kill it yourself. Afterwards the job gets another aggregate through a
savepoint, and goes on with the next files.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from demos.killing import last_batch, moment, run
from demos.shared import OUTPUT, Output, save_picture, say
from hot_items.clicks import GOOD, LATE, Clicks, Shape, make_clicks, write_clicks
from hot_items.demo import read_output

DELAY, MINUTES = 5, 10
JOB = """
name = "clicks per category"
mode = "stream"
key = ["category_id"]
checkpoint = "{checkpoint}"
key_groups = 2
[source]
format = "csv"
path = "clicks"
schema = "user_id BIGINT, item_id BIGINT, category_id BIGINT, behavior STRING, timestamp BIGINT"
files_per_batch = 1
[event_time]
column = "timestamp"
unit = "seconds"
invalid = "side_output"
[watermark]
strategy = "bounded"
delay = "5 seconds"
[window]
type = "tumbling"
size = "10 minutes"
[aggregate]
clicks = "count"
{more}
[sinks]
main = {{ format = "parquet", path = "main" }}
late = {{ format = "parquet", path = "late" }}
invalid = {{ format = "parquet", path = "invalid" }}
[trigger]
available_now = true
[spark]
"spark.master" = "local[2]"
"spark.ui.enabled" = "false"
"""
MORE = 'users = "count_distinct(user_id)"\nusers_complete = "complete(users)"'


@dataclass
class Story:
    """The events of the demo, in seconds since the Unix epoch, and the rows per file."""

    edges: list[int]
    began: float = field(default_factory=time.time)
    kills: list[float] = field(default_factory=list)
    commits: list[tuple[float, int]] = field(default_factory=list)
    changed: float = 0

    def add_commits(self, checkpoint: Path) -> None:
        """Read the times of the committed micro-batches. Micro-batch n has read the files up to file n."""
        numbers = sorted(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
        known = max((rows for _, rows in self.commits), default=0)
        for number in numbers:
            rows = self.edges[min(number + 1, len(self.edges) - 1)]
            self.commits.append(((checkpoint / "commits" / str(number)).stat().st_mtime, max(known, rows)))


def expected(clicks: Clicks, rows: int) -> tuple[dict[tuple[int, int], tuple[int, int]], int]:
    """Return clicks and users by category and window of all closed windows of the first rows, and the rows of open windows."""
    good = clicks.kinds[:rows] == GOOD
    times, categories, users = (each[:rows][good] for each in (clicks.timestamps, clicks.categories, clicks.users))
    starts = times // (60 * MINUTES) * 60 * MINUTES
    closed = starts + 60 * MINUTES <= times.max() - DELAY
    keys = list(zip(categories[closed].tolist(), starts[closed].tolist(), strict=True))
    people = Counter(key for key, _ in set(zip(keys, users[closed].tolist(), strict=True)))
    return {key: (number, people[key]) for key, number in Counter(keys).items()}, int(np.sum(~closed))


def compare(work: Path, clicks: Clicks, rows: int) -> bool:
    """Compare the output with the input, print the result, and return whether both are equal."""
    windows, waiting = expected(clicks, rows)
    main = read_output(work / "main")
    found = {(row["category_id"], int(row["window_start"].timestamp())): row for row in main}
    is_same = len(found) == len(main) and {key: row["clicks"] for key, row in found.items()} == {
        key: number for key, (number, _) in windows.items()
    }
    complete = [key for key, row in found.items() if row.get("users_complete")]
    is_same &= all(found[key]["users"] == windows[key][1] for key in complete if key in windows)
    late, invalid = len(read_output(work / "late")), len(read_output(work / "invalid"))
    is_same &= late == np.sum(clicks.kinds[:rows] == LATE) and invalid == np.sum(clicks.kinds[:rows] > LATE)
    counted = sum(row["clicks"] for row in main)
    verdict = "none lost, none twice" if is_same and counted + late + invalid + waiting == rows else "NOT EQUAL TO THE INPUT"
    say("counted", f"{counted:,} in {len(main):,} results + {late} late + {invalid} invalid + {waiting:,} waiting = {rows:,}")
    say("compared", f"each result with the input: {verdict}" + (f"; {len(complete):,} also count users" if complete else ""))
    return verdict.startswith("none")


def draw(story: Story, axes: Any) -> None:
    """Draw the committed rows over the time of the viewer, and the kills."""
    from panestream.insight.drawing import BAR, FAINT, INK, LINE, MARK

    times = [0.0, *(at - story.began for at, _ in story.commits)]
    rows = [0, *(rows for _, rows in story.commits)]
    axes.step(times, rows, where="post", color=BAR, linewidth=2.2)
    axes.fill_between(times, rows, step="post", color=BAR, alpha=0.12)
    top, beside = story.edges[-1], {"xytext": (4, 0), "textcoords": "offset points", "va": "top"}
    for number, at in enumerate(story.kills):
        axes.axvline(at - story.began, color=MARK, linewidth=1.6)
        axes.annotate(f"kill {number + 1}", (at - story.began, top * 1.13), color=MARK, **beside)
    axes.axvline(story.changed - story.began, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.annotate("savepoint,\nnew aggregate", (story.changed - story.began, top * 1.13), color=INK, **beside)
    axes.set_title(f"{top:,} rows committed exactly once, in spite of {len(story.kills)} kills", loc="left", color=INK)
    axes.set_xlabel("seconds", color=FAINT)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(0, top * 1.15)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=LINE, linewidth=0.6)


def show(
    work: Path, picture: Path, *, kills: int, rows: int = 120_000, files: int = 9, seed: int = 1, by_hand: bool = False
) -> bool:
    """Run the demo and return whether all outputs were equal to the input."""
    clicks, chance = make_clicks(Shape(rows=rows, seed=seed, hours=4)), random.Random(seed + time.time_ns())  # noqa: S311
    paths = write_clicks(clicks, work / "clicks", files)
    edges, first = np.linspace(0, rows, files + 1).astype(int).tolist(), files * 2 // 3
    for path in paths[first:]:  # they arrive later
        path.rename(work / path.name)
    story, checkpoint = Story(edges), work / "checkpoint-1"
    (work / "job.toml").write_text(JOB.format(checkpoint=checkpoint.name, more=""), encoding="utf-8")
    say("input", f"{rows:,} clicks in {files} files, a micro-batch each" + ("; press Enter to kill the job" if by_hand else ""))
    while run(work, "run", "job.toml", is_moment=moment(checkpoint, chance, by_hand=by_hand, left=kills - len(story.kills))):
        story.kills.append(time.time())
        done = last_batch(checkpoint / "commits") + 1
        say(f"kill {len(story.kills)}", f"kill -9 after {edges[min(done, first)]:,} committed rows; the same command goes on")
    story.add_commits(checkpoint)
    is_same = compare(work, clicks, edges[first])
    run(work, "savepoint", checkpoint.name, "savepoint")
    story.changed = time.time()
    say("new aggregate", "users per category, from a savepoint of the killed job, with the next files")
    for path in paths[first:]:
        (work / path.name).rename(path)
    (work / "job.toml").write_text(JOB.format(checkpoint="checkpoint-2", more=MORE), encoding="utf-8")
    run(work, "run", "job.toml", "--savepoint", "savepoint")
    story.add_commits(work / "checkpoint-2")
    is_same &= compare(work, clicks, rows)
    save_picture(picture, lambda axes, _: draw(story, axes), f"Rows committed over time, with {len(story.kills)} kills")
    return is_same


def main(
    output: Output = OUTPUT,
    *,
    kills: Annotated[int, typer.Option("--kills", min=0, help="How often the demo kills the job.")] = 3,
    by_hand: Annotated[bool, typer.Option("--by-hand", help="You kill the job, with Enter.")] = False,
) -> None:
    """Kill a streaming job with SIGKILL, start it again, and compare its output with its input."""
    with tempfile.TemporaryDirectory(prefix="panestream-demo-", ignore_cleanup_errors=True) as folder:
        is_same = show(Path(folder), output / "kill-it.svg", kills=kills, by_hand=by_hand)
    raise SystemExit(0 if is_same else 1)


if __name__ == "__main__":
    typer.run(main)
