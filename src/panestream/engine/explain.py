"""The description of a plan in words: which operator runs it, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from panestream.engine.plan import WindowPlan
from panestream.engine.runtime.sides import SIDES
from panestream.engine.runtime.watermarks import STEPS
from panestream.windowing.assigners import CalendarWindows, WindowAssigner
from panestream.windowing.assigners.base import SeveralWindows
from panestream.windowing.foreign_names import WithForeignNames
from panestream.windowing.time import format_duration


def explain_plan(
    plan: WindowPlan,
    *,
    streaming: bool,
    chosen: int | None,
    reduced_by_spark: bool = False,
    sampled: int | None = None,
    tasks: int | None = None,
    sinks: Mapping[str, str] | None = None,
    session: str | None = None,
    trigger: Sequence[str] = (),
) -> str:
    """Describe a plan in words.

    Args:
        plan: the query.
        streaming: whether it runs on a stream.
        chosen: the session's number of shuffle partitions, or None if it is Spark's default.
        reduced_by_spark: whether Spark itself reduces the rows before the operator gets them.
        sampled: the rows of a key in a pane by a sample, which decided that, or None if there was no sample.
        tasks: the number of tasks that share the key groups, or None if each key group has its own.
        sinks: for each output, its destination and how often a row arrives.
        session: the shortcomings of the session and their cost.
        trigger: lines about a composed trigger.
    """
    own = dict(plan.operator.explain(plan, streaming=streaming))
    groups = f"{plan.groups} key group{'s' if plan.groups > 1 else ''}, one per state partition"
    if tasks is not None:
        groups += f"; {tasks} task{'s take' if tasks > 1 else ' takes'} them in turns"
    if trigger:
        own["trigger"] = [*own.get("trigger", []), *trigger]
    # Rows that the key group puts in order are reduced there, not before.
    exchange = own.get("exchange", []) if plan.arrival is None or not streaming else []
    sections = {
        **({} if plan.sides is None else {"streams": [*_streams(plan)]}),
        **({"windows": [*_windows(plan), *_zones(plan)]} if plan.operator.capabilities.has_windows else {}),
        "operator": [plan.operator.name, *own.pop("operator", [])],
        **{title: own.pop(title) for title in list(own) if title not in ("exchange", "state")},
        "event time": _event_time(plan),
        "exchange": [
            *(_by_spark(plan, sampled) if reduced_by_spark else exchange),
            *([] if sampled is None else [_sampled(sampled)]),
            *_arrival(plan, streaming=streaming),
            *_split(plan),
            groups,
        ],
        "state": [*own.get("state", []), *(_settings(plan, chosen) if streaming else [])],
        "outputs": [
            ", ".join(plan.tags) + (f"; main: the top {plan.top.n} of each window by {plan.top.by}" if plan.top else ""),
            *(f"{tag}: {where}" for tag, where in (sinks or {}).items()),
        ],
    }
    if session is not None:
        sections["session"] = [session]
    width = max(len(title) for title in sections)
    lines = [
        f"{title if first else '':<{width}}  {line}"
        for title, body in sections.items()
        for first, line in zip([True] + [False] * len(body), body, strict=False)
    ]
    return "\n".join(lines)


def _sampled(rows: int) -> str:
    # The sample does not show where the rows end, so a large number means nothing.
    number = "more than 1,000 rows" if rows > 1_000 else f"about {rows:,} row{'s' if rows > 1 else ''}"
    return f"by a sample of the files, a key has {number} in a pane; .options(rows_per_pane=...) replaces the sample"


def _by_spark(plan: WindowPlan, sampled: int | None) -> list[str]:
    lines = ["rows are reduced per (key, pane) by Spark's own aggregation"]
    if plan.rows_per_pane is None and sampled is None:
        lines.append("if a key has few rows in a pane, say so with .options(rows_per_pane=...), which is faster")
    return lines


def _sides(plan: WindowPlan) -> tuple[str, str]:
    """Return the names of the two streams."""
    return ("rows", "rules") if plan.operator.capabilities.broadcasts else SIDES


def _streams(plan: WindowPlan) -> list[str]:
    names = _sides(plan)
    leading = [name for name, (_, one) in zip(names, plan.watermark.sides, strict=False) if one.has_watermarks]
    whose = f"the watermark of the {leading[0]}" if len(leading) == 1 else "the smaller of their watermarks"
    counts = f"; {whose} counts" if plan.watermark.has_watermarks else ""
    lines = [f"two, {' and '.join(names)}, each row with the side that it is of{counts}"]
    if plan.pairs is not None and plan.operator.capabilities.has_windows:
        lines.append(f"{plan.pairs.how} join: a window keeps the rows of each side once, and outputs build the pairs")
    return lines


def _windows(plan: WindowPlan) -> list[str]:
    if not isinstance(plan.assigner, SeveralWindows):
        return [_overlap(plan.assigner)]
    gaps = [one for one in plan.assigner.assigners if has_gaps(one)]
    return [repr(plan.assigner), *(_overlap(one) for one in gaps)]


def _overlap(assigner: WindowAssigner) -> str:
    """Describe an assigner, with the number of windows per row."""
    size, slide = getattr(assigner, "size", None), getattr(assigner, "slide", None)
    if size is None or slide is None:
        return repr(assigner)
    if has_gaps(assigner):
        return f"{assigner!r}: the slide is longer than the size, so rows between two windows belong to none"
    fewest, most = size // slide, -(-size // slide)
    overlap = f"{fewest} or {most}" if fewest < most else f"{most}"
    return f"{assigner!r}: each row is in {overlap} window{'s' if most > 1 else ''}"


def has_gaps(assigner: WindowAssigner) -> bool:
    """Return whether sliding windows leave out the rows between two windows."""
    size, slide = getattr(assigner, "size", None), getattr(assigner, "slide", None)
    return size is not None and slide is not None and bool(slide > size)


def _zones(plan: WindowPlan) -> list[str]:
    every = plan.assigner.assigners if isinstance(plan.assigner, SeveralWindows) else (plan.assigner,)
    rules = dict.fromkeys((one.rules.zone, one.rules.version) for one in every if isinstance(one, CalendarWindows))
    return [f"the clock of {zone} by the zone rules {version} of this machine, for all that run it" for zone, version in rules]


def _event_time(plan: WindowPlan) -> list[str]:
    lateness = f"; windows take rows for {format_duration(plan.allowed_lateness)} more" if plan.allowed_lateness else ""
    late = f"late rows go to the output {_tags(plan, plan.late_tags)}" if plan.late_tag else "late rows are counted and dropped"
    late = late if plan.operator.capabilities.late_rows else "no row is late"
    invalid = (
        f"rows without event time go to the output {_tags(plan, plan.invalid_tags)}"
        if plan.invalid_tag
        else "rows without event time fail the query"
    )
    if plan.event_time is None:
        return ["none: windows use the clock of the micro-batch"]
    closing = plan.watermark.closes_after
    strategies = [f"{name}: {one!r}" for name, (_, one) in zip(_sides(plan), plan.watermark.sides, strict=False)]
    watermark = f"{plan.event_time}, {'; '.join(strategies) or repr(plan.watermark)}"
    if closing is None:
        return [watermark, late + lateness, invalid]
    often = format_duration(max(closing // STEPS, plan.ticks))
    silence = (
        f"when all input has been silent for {format_duration(closing)}, the watermark follows the clock: while no rows come, it "
        f"wakes all key groups every {often} (not if the query ends by itself)"
    )
    return [watermark, silence, late + lateness, invalid]


def _tags(plan: WindowPlan, tags: Sequence[str | None]) -> str:
    if len(tags) == 1:
        return repr(tags[0])
    told = [
        f"{tag!r} ({side})" if tag else f"none ({side}: fail the query)" for side, tag in zip(_sides(plan), tags, strict=True)
    ]
    return ", ".join(told)


def _arrival(plan: WindowPlan, *, streaming: bool) -> list[str]:
    if plan.arrival is None and not plan.operator.capabilities.order_sensitive:
        return []
    if plan.arrival is None and plan.pairs is not None and plan.operator.capabilities.fires_once:
        return ["which pairs there are does not depend on the order of arrival; how they are ordered does, and that is Spark's"]
    if plan.arrival is None:
        return ["results depend on the order of arrival, which is Spark's"]
    how = "rows cross unreduced, and are put in order in their key group" if streaming else "Spark puts the rows in order first"
    order = ", ".join(plan.arrival.names) if plan.sides is None else "arrival that the streams give"
    return [f"in the order of {order}: {how}"]


def _split(plan: WindowPlan) -> list[str]:
    if plan.split is None:
        return []
    parts = f"the rows of a key go to up to {min(plan.split.parts, plan.groups)} key groups, by {plan.split.by}"
    return [f"{parts}; a window is combined when it fires"]


def _settings(plan: WindowPlan, chosen: int | None) -> list[str]:
    if plan.groups in (1, chosen):
        return []
    line = (
        f"result.start() sets spark.sql.shuffle.partitions={plan.groups} for its query; for .main set it yourself "
        f"(now {chosen if chosen is not None else 'the default, 200'}), and the RocksDB state store"
    )
    return [line]


_LONGEST = 160
_MOST = 8


class Explanation(str):
    r"""A plan in words: a string whose ``repr`` is readable, without quotes and ``\n``.

    >>> Explanation("windows   TumblingEventTimeWindows.of('1 hour')\noperator  aligned panes")
    windows   TumblingEventTimeWindows.of('1 hour')
    operator  aligned panes
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class ReprHtml(WithForeignNames):
    """An object with a short ``repr`` and an HTML table for notebooks.

    >>> class Page(ReprHtml):
    ...     def _parts(self):
    ...         return {"rows": "3 & more", "late": ""}
    >>> Page()
    <Page: rows 3 & more>
    >>> "&amp; more" in Page()._repr_html_(), "late" in Page()._repr_html_()
    (True, False)
    """

    def _parts(self) -> Mapping[str, str]:
        """Return the parts of the description by title. A ``repr`` omits the titles; empty parts are left out."""
        raise NotImplementedError

    def _said(self) -> list[tuple[str, str]]:
        return [(title, part) for title, part in self._parts().items() if part]

    def __repr__(self) -> str:
        text = " | ".join(f"{title} {part}" for title, part in self._said())
        whole = f"{type(self).__name__}: {text}" if text else type(self).__name__
        return f"<{whole if len(whole) <= _LONGEST else whole[: _LONGEST - 1] + '…'}>"

    def _repr_html_(self) -> str:
        return small_table(type(self).__name__, self._said())


def small_table(caption: str, said: Iterable[tuple[str, str]]) -> str:
    """Return a small HTML table for notebooks from titles and texts."""
    style = ' style="text-align: left"'
    rows = "".join(f"<tr><th{style}>{escape(title)}</th><td{style}>{escape(part)}</td></tr>" for title, part in said)
    return f"<table><caption>{escape(caption)}</caption>{rows}</table>"


def parts_of(shown: ReprHtml) -> Mapping[str, str]:
    """Return the parts of an object that is shown within another one."""
    return shown._parts()  # noqa: SLF001 - a method of the same module


def listed(names: Sequence[str]) -> str:
    """Join names with commas, shortening a long list.

    >>> listed(["user", "page"]), listed(list("abcdefghij"))
    ('user, page', 'a, b, c, d, e, f, g, h, … (10)')
    """
    shown = ", ".join(names[:_MOST])
    return shown if len(names) <= _MOST else f"{shown}, … ({len(names)})"
