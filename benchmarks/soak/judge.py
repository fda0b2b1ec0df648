"""Was the output right, and did anything grow?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from benchmarks.soak.query import KEYS, SLIDE_MS, START_MS, Folders, expected

BOUNDS: Mapping[str, float] = {
    "driver": 0.10,
    "jvm": 0.15,
    "worker": 0.10,
    "open_files": 0.10,
    "checkpoint_mb": 0.10,
    "checkpoint_files": 0.10,
    "calm_ms": 0.25,
    "state": 0.05,
}
"""The maximum rise of a measure over the run, as a share of its median. It allows for noise, but not for growth."""
NAMES = {
    "driver": "driver's Python, MB",
    "jvm": "JVM (driver and executor), MB",
    "worker": "largest Python worker, MB",
    "open_files": "open files (driver, JVM)",
    "checkpoint_mb": "checkpoint, MB",
    "checkpoint_files": "checkpoint, files",
    "calm_ms": "duration of a micro-batch, as on the calm machine, ms",
    "state": "state, bytes",
}


@dataclass(frozen=True)
class Judged:
    """One measure over the run.

    ``rise`` is the rise of the line through it, as a share of its median, or None if the run is too short.
    """

    name: str
    median: float
    most: float
    rise: float | None
    bound: float

    @property
    def flat(self) -> bool:
        return self.rise is None or self.rise <= self.bound

    def line(self) -> str:
        """Return the line of the table."""
        rise = "" if self.rise is None else f"{self.rise:+.1%}"
        verdict = "too short to tell" if self.rise is None else "flat" if self.flat else "**grows**"
        return f"| {NAMES[self.name]} | {self.median:,.0f} | {self.most:,.0f} | {rise} | {self.bound:.0%} | {verdict} |"


def judged(looks: Sequence[Mapping[str, Any]], batches: Sequence[Mapping[str, Any]], kept: int) -> list[Judged]:
    """Judge each measure, from the looks and from the query's reports of its micro-batches.

    The checkpoint grows until it has ``kept`` micro-batches, and is not judged before.
    """
    batches = calmed(batches, looks)
    full = next((batch["at"] for batch in batches if batch["batch"] > kept), None)
    return [
        _judged(
            name,
            batches if name in ("calm_ms", "state") else looks,
            full if name.startswith("checkpoint") else looks[0]["at"],
        )
        for name in BOUNDS
    ]


def calmed(batches: Sequence[Mapping[str, Any]], looks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the micro-batches with their estimated durations on a machine as calm as in its calmest tenth.

    Each look also times a fixed loop. If other work takes the processors, or they slow down, the loop takes longer by the same
    share as the micro-batch. The rest is due to the query.
    """
    times = np.array([look["at"] for look in looks], float)
    loops = np.array([look["loop_ms"] for look in looks], float)
    # A single look is noisy. The median of its neighbours shows the state of the machine.
    around = [float(np.median(loops[max(at - 3, 0) : at + 4])) for at in range(len(loops))]
    calm = float(np.quantile(around, 0.1))
    return [{**batch, "calm_ms": batch["ms"] * calm / float(np.interp(batch["at"], times, around))} for batch in batches]


def _judged(name: str, seen: Sequence[Mapping[str, Any]], since: float | None) -> Judged:
    begin, end = seen[0]["at"], seen[-1]["at"]
    # A measure that has not settled after half of the run cannot show continued growth.
    enough = since is not None and since <= (begin + end) / 2
    first = max(begin + (end - begin) / 10, since) if enough and since is not None else begin
    settled = [each for each in seen if each["at"] >= first]
    # The number of pairs is quadratic, and a few hundred means of neighbours give the same answer. (Every n-th value would not: a
    # cyclic measure, such as the state of windows, would be seen at some points of its cycle only.)
    parts = np.array_split(np.array([(each["at"], each[name]) for each in settled], float), min(len(settled), 400))
    at, values = np.array([part.mean(axis=0) for part in parts]).T
    median = statistics.median(each[name] for each in settled)
    rise = theil_sen(at, values) * (settled[-1]["at"] - settled[0]["at"]) / max(median, 1e-9)
    return Judged(name, float(median), float(max(each[name] for each in settled)), float(rise) if enough else None, BOUNDS[name])


def theil_sen(at: Any, values: Any) -> float:
    """Return the median of the slopes between all pairs.

    >>> theil_sen(np.array([0.0, 1, 2, 3]), np.array([1.0, 3, 5, 100]))
    2.0
    """
    first, second = np.triu_indices(len(at), 1)
    apart = at[second] != at[first]
    if not apart.any():
        return 0.0
    return round(float(np.median(((values[second] - values[first])[apart]) / (at[second] - at[first])[apart])), 9)


def exactness(folders: Folders, rate: int) -> dict[str, Any]:
    """Compare the output with the answer, for all windows up to the last one that fired."""
    rows = ds.dataset(folders.main, partitioning="hive", format="parquet").to_table(columns=["key", "window_end", "n", "total"])
    ends = rows["window_end"].cast("timestamp[ms]", safe=False).cast("int64").to_numpy()
    upto = int(ends.max())
    shape = (KEYS, (upto - START_MS) // SLIDE_MS)
    where = rows["key"].to_numpy() * shape[1] + (ends - START_MS) // SLIDE_MS - 1
    # The first windows end at START_MS. They contain the few events before it, and are not compared.
    inside = ends > START_MS
    where = where[inside]
    seen = np.bincount(where, minlength=shape[0] * shape[1])
    found = np.zeros((2, shape[0] * shape[1]), np.int64)
    found[0, where], found[1, where] = rows["n"].to_numpy()[inside], rows["total"].to_numpy()[inside]
    counts, sums = (each.reshape(-1) for each in expected(upto, rate))
    wrong = (seen == 1) & ((found[0] != counts) | (found[1] != sums))
    return {
        "windows": int((counts > 0).sum()),
        "events": int(counts.reshape(shape)[:, ::3].sum()),
        "upto": str(np.datetime64(upto, "ms")),
        "missing": int(((counts > 0) & (seen == 0)).sum()),
        "twice": int((seen > 1).sum()),
        "wrong": int(wrong.sum()) + int(((counts == 0) & (seen > 0)).sum()),
        "late": _rows(folders.late),
    }


def _rows(folder: Path) -> int:
    return int(ds.dataset(folder, partitioning="hive", format="parquet").count_rows()) if folder.exists() else 0
