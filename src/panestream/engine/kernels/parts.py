"""The labels of the parts of saved state, and which parts cover all rows: read from the headers of state tables.

A part is a partial, or a part of an accumulator. Its label, the aggregate's description, identifies it. A part added to a running
query covers only the rows since then. A second part may count the missing rows (``agg.complete``), and is found by the first
one's label. Without such a part, the header lists the first one as incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LACKS = "what is missing in "


def missing_data_of(of: str) -> str:
    """Return the label of the part that counts the rows missing in another part.

    >>> missing_data_of("agg.sum('price')")
    "what is missing in agg.sum('price')"
    """
    return _LACKS + of


def is_missing_data_part(of: str) -> bool:
    """Return whether a part counts the rows missing in another part."""
    return of.startswith(_LACKS)


def parts_in(header: Mapping[str, Any]) -> list[str]:
    """Return the labels of the parts of saved state."""
    return [str(one["of"]) for one in header["partials"]] if "partials" in header else list(header.get("accumulators", []))


def complete_parts(header: Mapping[str, Any]) -> set[str]:
    """Return the parts of saved state that cover all rows."""
    return set(parts_in(header)).difference(header.get("incomplete", []))


def known_from_the_start(complete: set[str], of: str) -> bool:
    """Return whether a new part counts the rows missing in a part that covers all rows."""
    return is_missing_data_part(of) and of.removeprefix(_LACKS) in complete


def incomplete_parts(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the parts that may miss rows and lack a counting part, given the headers of the saved state and of the query."""
    before, after = set(parts_in(saved)), set(parts_in(now))
    unknown = set(saved.get("incomplete", []))
    # If the counting part is removed, its part may still miss rows.
    unknown |= {of for of in after if missing_data_of(of) not in after and (of not in before or missing_data_of(of) in before)}
    return sorted(unknown & {of for of in after if not is_missing_data_part(of)})
