"""Which look-backs run: declared aggregates over them, each row once. No other operator knows them."""

from __future__ import annotations

import pyarrow as pa

from panestream.engine.aggregates import Aggregation
from panestream.engine.operators.look_back.spec import LookBackSpec
from panestream.engine.rule import Asked, Supported, on_columns_only
from panestream.engine.storage.state_tables import key_fields
from panestream.engine.window_spec import WindowSpec
from panestream.windowing.assigners.look_back import look_backs_of


def look_back_rule(window: WindowSpec, asked: Asked) -> Supported | None:
    """Look-backs, one or several, over declared aggregates.

    Raises:
        InvalidPlanError: anything else is asked for of look-backs.
    """
    look_backs = look_backs_of(window.assigner)
    if look_backs is None:
        return None
    asked = on_columns_only(window, asked, "look-backs")
    bare = Aggregation.build(asked.aggregates, asked.types, pa.schema([]))
    keyed = Aggregation.build(asked.aggregates, asked.types, pa.schema(key_fields(asked.keys)))
    kept = pa.schema([]) if asked.kept is None else asked.kept
    return Supported(LookBackSpec(look_backs, tuple(asked.aggregates), bare, keyed, asked.columns, kept, asked.keys))


__all__ = ["look_back_rule"]
