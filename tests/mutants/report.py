"""The outcomes of faults, as a table by package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any

from tests.mutants.planting import HUNG, KILLED, SURVIVED, Verdict
from tests.mutants.sampling import PACKAGES, package_of


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Args:
        package: its name.
        possible: the number of faults that could be planted.
        reached: the number of those in functions that a selected test reaches.
        tried: the number of tried faults.
        killed: the number of detected faults, including those that hung.
        hung: the number of faults detected because a test did not end.
        equivalent: the number of survivors that change nothing that is promised.
    """

    package: str
    possible: int
    reached: int
    tried: int
    killed: int
    hung: int
    equivalent: int

    @property
    def survived(self) -> int:
        return self.tried - self.killed - self.equivalent

    @property
    def share(self) -> float | None:
        """Return the share of killed faults among those that are not equivalent."""
        can_be = self.tried - self.equivalent
        return self.killed / can_be if can_be else None


@dataclass(frozen=True)
class Sample:
    """The outcomes of the faults of one seed.

    Args:
        seed: the seed.
        title: a description.
        lines: its table.
        verdicts: the outcomes counted in the table.
    """

    seed: int
    title: str
    lines: list[Line]
    verdicts: list[Verdict]

    def as_json(self, equivalent: Mapping[str, str]) -> dict[str, Any]:
        """Return the figures, and each survivor with its reason."""
        survived = [each.fault.name for each in self.verdicts if each.became == SURVIVED and each.fault]
        return {
            "seed": self.seed,
            "title": self.title,
            "packages": [{**asdict(line), "survived": line.survived, "share": line.share} for line in self.lines],
            "survivors": {name: equivalent.get(name, "a hole") for name in survived},
        }


def lines_of(
    verdicts: Iterable[Verdict], possible: Mapping[str, int], reached: Mapping[str, int], equivalent: Mapping[str, str]
) -> list[Line]:
    """Return the table, with a line for each package and one for all."""
    by_package: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.fault is not None and verdict.became in (KILLED, HUNG, SURVIVED):
            by_package.setdefault(package_of(verdict.fault.module), []).append(verdict)
    lines = [
        Line(
            name,
            possible[name],
            reached[name],
            len(own),
            sum(verdict.became != SURVIVED for verdict in own),
            sum(verdict.became == HUNG for verdict in own),
            sum(verdict.became == SURVIVED and verdict.fault.name in equivalent for verdict in own),
        )
        for name in PACKAGES
        if name in possible
        for own in [by_package.get(name, [])]
    ]
    sums = [
        sum(getattr(line, name) for line in lines) for name in ("possible", "reached", "tried", "killed", "hung", "equivalent")
    ]
    return [*lines, Line("all", *sums)]


def as_markdown(samples: Iterable[Sample], equivalent: Mapping[str, str], facts: Iterable[str]) -> str:
    """Return the page."""
    lines = ["# Planted faults: killed of how many, by package", "", *(f"- {fact}" for fact in facts), ""]
    for sample in samples:
        lines += [f"## {sample.title}", "", *_table(sample.lines), "", *_width(sample.lines), *_survivors(sample, equivalent)]
    return "\n".join(lines)


def _table(lines: Iterable[Line]) -> list[str]:
    return [
        "| package | faults possible | in reach | tried | killed | of these hung | equivalent | survived | killed of those not equivalent |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {line.package} | {line.possible:,} | {line.reached:,} | {line.tried} | {line.killed} | {line.hung} "
            f"| {line.equivalent} | {line.survived} | {'' if line.share is None else f'{100 * line.share:.1f} %'} |"
            for line in lines
        ),
    ]


def _width(lines: Sequence[Line]) -> list[str]:
    """Return how far the sample's share may differ from the share of all faults, and the share weighted by the size of packages."""
    whole, packages = lines[-1], [line for line in lines[:-1] if line.share is not None]
    if whole.share is None:
        return []
    low, high = within(whole.killed, whole.tried - whole.equivalent)
    weighed = sum(line.possible * (line.share or 0) for line in packages) / sum(line.possible for line in packages)
    share = (
        f"Of all faults that can be drawn it is, by chance of the sample (95 %, Wilson), {100 * low:.1f} to {100 * high:.1f} %."
    )
    return [f"{share} Each package weighed by its faults: {100 * weighed:.1f} %.", ""]


def within(killed: int, tried: int) -> tuple[float, float]:
    """Return Wilson's interval: the range of the true share for this sample, with 95 % confidence."""
    z = NormalDist().inv_cdf(0.975)
    share, more = killed / tried, z * z / tried
    half = z * sqrt(share * (1 - share) / tried + more / (4 * tried))
    return max(0.0, (share + more / 2 - half) / (1 + more)), min(1.0, (share + more / 2 + half) / (1 + more))


def _survivors(sample: Sample, equivalent: Mapping[str, str]) -> list[str]:
    survivors = sorted(
        (each for each in sample.verdicts if each.became == SURVIVED and each.fault), key=lambda each: each.fault.name
    )
    known = [f"- `{_code(each)}`\n  {equivalent[each.fault.name]}" for each in survivors if each.fault.name in equivalent]
    holes = [f"- `{_code(each)}`\n  survived {each.by}" for each in survivors if each.fault.name not in equivalent]
    return [
        *("Survivors that change nothing that is promised:", "", *(known or ["None."]), ""),
        *("Survivors that a test should notice, or that nobody has judged:", "", *(holes or ["None."]), ""),
    ]


def _code(verdict: Verdict) -> str:
    fault = verdict.fault
    assert fault is not None
    return f"{fault.module}:{fault.line} {fault.function}, {fault.what}: {fault.before} -> {fault.after}".replace("`", "'")
