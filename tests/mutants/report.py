"""What became of the faults, as a table by package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.mutants.planting import HUNG, KILLED, SURVIVED, Verdict
from tests.mutants.sampling import PACKAGES, package_of


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Args:
        package: its name.
        possible: how many faults could be planted.
        tried: how many were.
        killed: how many were noticed, those that hung among them.
        hung: how many were noticed by not ending.
        equivalent: how many survived and change nothing that is promised.
    """

    package: str
    possible: int
    tried: int
    killed: int
    hung: int
    equivalent: int

    @property
    def survived(self) -> int:
        return self.tried - self.killed - self.equivalent

    @property
    def share(self) -> float | None:
        """Killed of those that can be."""
        can_be = self.tried - self.equivalent
        return self.killed / can_be if can_be else None


def lines_of(verdicts: Iterable[Verdict], possible: Mapping[str, int], equivalent: Mapping[str, str]) -> list[Line]:
    """The table: a line for each package, and one for all."""
    by_package: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.fault is not None and verdict.became in (KILLED, HUNG, SURVIVED):
            by_package.setdefault(package_of(verdict.fault.module), []).append(verdict)
    lines = [
        Line(
            name,
            possible[name],
            len(own),
            sum(verdict.became != SURVIVED for verdict in own),
            sum(verdict.became == HUNG for verdict in own),
            sum(verdict.became == SURVIVED and verdict.fault.name in equivalent for verdict in own),
        )
        for name in PACKAGES
        if name in possible
        for own in [by_package.get(name, [])]
    ]
    sums = [sum(getattr(line, name) for line in lines) for name in ("possible", "tried", "killed", "hung", "equivalent")]
    return [*lines, Line("all", *sums)]


def as_markdown(lines: Iterable[Line], verdicts: Iterable[Verdict], equivalent: Mapping[str, str], facts: Iterable[str]) -> str:
    """The page."""
    survivors = sorted((each for each in verdicts if each.became == SURVIVED and each.fault), key=lambda each: each.fault.name)
    rows = [
        f"| {line.package} | {line.possible:,} | {line.tried} | {line.killed} | {line.hung} | {line.equivalent} | {line.survived} "
        f"| {'' if line.share is None else f'{100 * line.share:.1f} %'} |"
        for line in lines
    ]
    known = [f"- `{_code(each)}`\n  {equivalent[each.fault.name]}" for each in survivors if each.fault.name in equivalent]
    holes = [f"- `{_code(each)}`\n  survived {each.by}" for each in survivors if each.fault.name not in equivalent]
    return "\n".join(
        [
            "# Planted faults: killed of how many, by package",
            "",
            *(f"- {fact}" for fact in facts),
            "",
            "| package | faults possible | tried | killed | of these hung | equivalent | survived | killed of those not equivalent |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
            "## Survivors that change nothing that is promised",
            "",
            *(known or ["None."]),
            "",
            "## Survivors that a test should notice",
            "",
            *(holes or ["None."]),
            "",
        ]
    )


def _code(verdict: Verdict) -> str:
    fault = verdict.fault
    assert fault is not None
    return f"{fault.module}:{fault.line} {fault.function}, {fault.what}: {fault.before} -> {fault.after}".replace("`", "'")
