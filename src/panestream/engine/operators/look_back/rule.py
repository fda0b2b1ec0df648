"""Which look-backs run: declared aggregates over them, each row once. No other operator knows them."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.look_back.spec import LookBackSpec
from panestream.engine.rule import Asked, DeclaredAggregates, Supported
from panestream.engine.storage.state_tables import key_fields
from panestream.engine.window_spec import WindowSpec
from panestream.errors import InvalidPlanError
from panestream.windowing.assigners.look_back import look_backs_of


def look_back_rule(window: WindowSpec, asked: Asked) -> Supported | None:
    """Look-backs, one or several, over declared aggregates.

    Raises:
        InvalidPlanError: anything else is asked for of look-backs.
    """
    look_backs = look_backs_of(window.assigner)
    if look_backs is None:
        return None
    reasons = why_not(window)
    if not isinstance(asked, DeclaredAggregates) or asked.then is not None:
        reasons.append("functions of your own over rows do not run there: they compute declared aggregates (panestream.agg)")
    if reasons or not isinstance(asked, DeclaredAggregates):
        raise InvalidPlanError(f"{window.assigner!r}: look-backs run as columns only, and {'; '.join(reasons)}")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    keyed = Aggregation.build(asked.aggregates, asked.types, pa.schema(key_fields(asked.keys)))
    kept = pa.schema([]) if asked.kept is None else asked.kept
    return Supported(LookBackSpec(look_backs, tuple(asked.aggregates), bare, keyed, asked.columns, kept, asked.keys))


def why_not(window: WindowSpec) -> list[str]:
    """What of a query's windows goes only with windows that hold rows until they fire; empty: nothing."""
    reasons = []
    if window.trigger is not None and window.trigger != window.assigner.get_default_trigger():
        reasons.append(f"fire once, at the watermark: leave out the trigger {window.trigger!r}")
    if window.evictor is not None:
        reasons.append(f"keep no elements to evict: leave out {window.evictor!r}")
    if window.allowed_lateness:
        reasons.append("emit no result twice: leave out allowed_lateness, and let the watermark wait longer")
    if window.exact_firings:
        reasons.append("have one firing each: leave out exact_firings")
    return reasons


__all__ = ["look_back_rule", "why_not"]
