"""JSON for machines that a terminal can show, too: no character of it moves a cursor, sets a title or turns text around."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_UNUSUAL = re.compile(r"[^\n -~]")


def json_text(value: object, default: Callable[[Any], Any] | None = None) -> str:
    r"""Return a value as JSON of several lines, with escapes for all characters that are not visible.

    Args:
        value: numbers, texts, lists and dicts.
        default: what becomes of other values, as ``json.dumps`` takes it.

    >>> print(json_text("ä\x1b[2J\x9b\x7f\u202e\ud800"))
    "ä\u001b[2J\u009b\u007f\u202e\ud800"
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=default)
    return _UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text)


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


__all__ = ["json_text"]
