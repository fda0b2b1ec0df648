"""Time zones by name: whether there is one, and which is meant."""

from __future__ import annotations

import difflib
import re
import zoneinfo

_OFFSET = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{2}){0,2}")


def unknown_zone(name: str) -> str | None:
    """What is wrong with the name of a time zone; None where nothing is, or this machine knows no zones (Spark brings its own).

    >>> unknown_zone("Asia/Shanghai"), unknown_zone("+08:00"), unknown_zone("UTC+8")
    (None, None, None)
    >>> unknown_zone("Asia/Shangai")
    "there is no time zone 'Asia/Shangai'; did you mean 'Asia/Shanghai'?"
    """
    if _OFFSET.fullmatch(name):
        return None
    known = zoneinfo.available_timezones()
    if name in known or not known:
        return None
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else "write one such as 'Asia/Shanghai', 'UTC' or '+08:00'"
    return f"there is no time zone {name!r}; {hint}"
