"""What the parts of saved state are of, in words, and which of them know all rows: read from the headers of state tables.

A part is a partial, or a part of an accumulator. It is found again by what it is of. A part that was added to a running query
knows only the rows from then on. A second part may count what it lacks (``agg.complete``), and is found by the first one's words.
Where none does, the header remembers the first one as incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LACKS = "what is missing in "


def lacks(of: str) -> str:
    """What a part is of that tells what another one does not know.

    >>> lacks("agg.sum('price')")
    "what is missing in agg.sum('price')"
    """
    return _LACKS + of


def tells_of_another(of: str) -> bool:
    """Whether a part tells what another one lacks."""
    return of.startswith(_LACKS)


def parts_in(header: Mapping[str, Any]) -> list[str]:
    """What the parts of saved state are of."""
    return [str(one["of"]) for one in header["partials"]] if "partials" in header else list(header.get("accumulators", []))


def complete_parts(header: Mapping[str, Any]) -> set[str]:
    """The parts of saved state that know all rows."""
    return set(parts_in(header)).difference(header.get("incomplete", []))


def known_from_the_start(complete: set[str], of: str) -> bool:
    """Whether a new part reports what another part lacks, and that one is among the parts that know all rows."""
    return tells_of_another(of) and of.removeprefix(_LACKS) in complete


def incomplete_parts(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The parts that may lack rows with nothing that tells so, once state has been taken over.

    Args:
        saved: the header of the saved state.
        now: that of the query which takes it over.
    """
    before, after = set(parts_in(saved)), set(parts_in(now))
    unknown = set(saved.get("incomplete", []))
    # One that was told of, and is not any more, may lack what it lacked.
    unknown |= {of for of in after if lacks(of) not in after and (of not in before or lacks(of) in before)}
    return sorted(unknown & {of for of in after if not tells_of_another(of)})


__all__ = ["complete_parts", "incomplete_parts", "known_from_the_start", "lacks", "parts_in", "tells_of_another"]
