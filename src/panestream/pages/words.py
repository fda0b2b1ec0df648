"""Texts for numbers, times and names."""

from __future__ import annotations

from panestream.windowing.time import iso

_S = 1_000_000
_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
LONGEST = 120
"""The most characters shown of keys, labels and results that users wrote."""


def moment(micros: int | None) -> str:
    """Return a time in UTC, rounded to the second, or ``-`` for None. Rounding shows the last instant of a window as its end.

    >>> moment(1_511_658_000_000_000), moment(1_511_657_999_999_999), moment(None)
    ('2017-11-26 01:00:00', '2017-11-26 01:00:00', '-')
    """
    return watermark_text(None if micros is None else (micros + _S // 2) // _S * _S)


def watermark_text(micros: int | None) -> str:
    """Return a watermark in UTC to the microsecond, as answers to ``why`` show it, or ``-`` for None.

    >>> watermark_text(1_511_657_999_999_999), watermark_text(1_511_658_000_000_000), watermark_text(None)
    ('2017-11-26 00:59:59.999999', '2017-11-26 01:00:00', '-')
    """
    text = iso(micros)
    return "-" if text is None else text.removesuffix("Z").replace("T", " ")


def span(micros: int | None) -> str:
    """Return a duration in its two largest units.

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
    """Return a number of bytes with its unit.

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
    """Return a count, or ``?`` if it is unknown."""
    return "?" if count is None else f"{count:,}"


def many(count: int, what: str) -> str:
    """Return a count with a noun.

    >>> many(1, "window"), many(1200, "window")
    ('1 window', '1,200 windows')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def printable(text: str, longest: int = LONGEST) -> str:
    r"""Return user text made harmless for terminals and pages, with invisible characters escaped.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in cut)


def behind(later: int | None, earlier: int | None) -> int | None:
    """Return how much later the first time is, or None if one is unknown."""
    return None if later is None or earlier is None else later - earlier


__all__ = ["behind", "many", "moment", "number", "printable", "size", "span", "watermark_text"]
