"""JSON that is safe to show in a terminal: no character moves the cursor, sets a title or reverses text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_UNUSUAL = re.compile(r"[^\n -~]")


def json_text(value: object, default: Callable[[Any], Any] | None = None) -> str:
    r"""Return a value as indented JSON with escapes for all invisible characters; ``default`` is that of ``json.dumps``.

    >>> print(json_text("ä\x1b[2J\x9b\x7f\u202e\ud800"))
    "ä\u001b[2J\u009b\u007f\u202e\ud800"
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=default)
    return _UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text)


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


__all__ = ["json_text"]
