"""Numbers, times and names for people."""

from __future__ import annotations

from panestream.engine.shown import listed
from panestream.inspection.summary import SameBounds, Summary
from panestream.inspection.values import Json, iso, key_text

_S = 1_000_000
_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
LONGEST = 120
"""Characters of what users wrote: keys, labels, results."""


def moment(micros: int | None) -> str:
    """A time in UTC to the second, as a clock shows it; ``-`` where there is none.

    The last instant of a window that ends at eleven is a microsecond before: shown as eleven.

    >>> moment(1_511_658_000_000_000), moment(1_511_657_999_999_999), moment(None)
    ('2017-11-26 01:00:00', '2017-11-26 01:00:00', '-')
    """
    text = iso(None if micros is None else (micros + _S // 2) // _S * _S)
    return "-" if text is None else text.removesuffix("Z").replace("T", " ")


def span(micros: int | None) -> str:
    """A duration, in its two largest units.

    >>> span(400_000), span(75_000_000), span(-3_600_000_000), span(90_061_000_000), span(None)
    ('0.4 s', '1 min 15 s', '-1 h', '1 d 1 h', '-')
    """
    if micros is None:
        return "-"
    if abs(micros) < 10 * _S:
        return f"{micros / _S:.1f} s".replace(".0 s", " s")
    rest, parts = round(abs(micros) / _S), list[str]()
    for name, unit in _UNITS:
        count, rest = divmod(rest, unit)
        if parts and not count:
            break
        if count:
            parts.append(f"{count:,} {name}")
        if len(parts) == 2:
            break
    return ("-" if micros < 0 else "") + " ".join(parts)


def size(count: int) -> str:
    """Bytes.

    >>> size(999), size(1_234_567)
    ('999 B', '1.2 MB')
    """
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.95 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"


def number(count: int | None) -> str:
    """A count; ``?`` where it is unknown."""
    return "?" if count is None else f"{count:,}"


def many(count: int, what: str) -> str:
    """A count and what is counted.

    >>> many(1, "window"), many(1200, "window")
    ('1 window', '1,200 windows')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def printable(text: str, longest: int = LONGEST) -> str:
    r"""Text of users' that does nothing to a terminal or a page: what is no visible character is told by its number.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in cut)


def key_shown(key: Json) -> str:
    """A key."""
    return printable(key_text(key))


def behind(later: int | None, earlier: int | None) -> int | None:
    """How far one time is before another."""
    return None if later is None or earlier is None else later - earlier


def holders(one: SameBounds) -> str:
    """Whose windows they are: the key, or how many keys."""
    return key_shown(one.key) if one.keys == 1 and one.key is not None else many(one.keys, "key") if one.key is None else ""


def head(summary: Summary) -> list[tuple[str, str]]:
    """What there is to say first: titles and text."""
    plan, taken = summary.plan, summary.taken
    planned = "" if summary.planned is None else f", planned {moment(summary.planned)} UTC, {span(taken - summary.planned)} ago"
    key = ", ".join(f"{printable(name)} ({kind})" for name, kind in plan.key) or "none"
    lines = [
        ("micro-batch", f"{'none: made of history' if summary.batch_id is None else summary.batch_id}{planned}"),
        ("windows", printable(plan.windows, 400)),
        ("operator", f"{plan.operator}, {many(plan.groups, 'key group')}"),
        ("key", key),
    ]
    if plan.results:
        lines.append(("results", printable(", ".join(plan.results), 400)))
    if plan.lateness:
        lines.append(("lateness", f"windows take rows for {span(plan.lateness)} after their end"))
    lines += [(f"only {name}", printable(", ".join(given), 400)) for name, given in summary.filters.items()]
    if "key" in summary.filters and not any((summary.windows, summary.elements, summary.user_state, summary.timers)):
        # A typo in the name of the only key column looks like a value.
        names = printable(listed([name for name, _ in plan.key]))
        lines.append(("found", f"nothing of such a key; a key is asked for as column=value (key columns: {names})"))
    return [*lines, *_times(summary), *_counts(summary)]


def _times(summary: Summary) -> list[tuple[str, str]]:
    lines = []
    if summary.clock is not None:
        ago = span(summary.taken - summary.clock)
        lines.append(("clock", f"windows follow the clock, which had come to {moment(summary.clock)} UTC, {ago} ago"))
    if summary.sources or summary.watermark is not None:
        far = f"{span(behind(summary.newest, summary.watermark))} behind the newest event"
        late = f"{span(behind(summary.taken, summary.watermark))} behind the clock"
        told = "none yet" if summary.watermark is None else f"{moment(summary.watermark)} UTC, {far}, {late}"
        lines.append(("watermark", told))
    return lines


def _counts(summary: Summary) -> list[tuple[str, str]]:
    rows = "" if summary.rows is None else f", {many(summary.rows, 'row')} in them"
    known = "" if not summary.plan.key else f" of {many(summary.keys, 'key')}"
    fire = f"; {number(summary.due)} will fire if no row comes" if summary.windows else ""
    endless = f", {number(summary.timeless)} without end" if summary.timeless else ""
    lines = [("open", f"{many(summary.windows, 'window')}{known}{rows}{endless}{fire}")]
    if summary.plan.split:
        lines.append(("", "the values of a key lie in several key groups: its windows count in each of them"))
    if summary.elements:
        lines.append(("kept", f"{many(summary.elements, 'element')} for functions and evictors"))
    if summary.late_dropped is not None:
        lines.append(("late rows", f"{number(summary.late_dropped)} dropped so far"))
    lines.append(("state", size(summary.bytes)))
    return lines


__all__ = ["behind", "head", "holders", "key_shown", "many", "moment", "number", "printable", "size", "span"]
