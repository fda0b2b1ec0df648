"""What is to be said of sessions that grow, together with a sink that keeps one row for each key and window."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from panestream.engine.plan import MAIN
from panestream.errors import PanestreamWarning
from panestream.windowing.assigners import MergingWindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from panestream.engine.plan import OperatorSpec
    from panestream.engine.window_spec import WindowSpec
    from panestream.spark.sinks.base import Sink


def warn_of_stale_rows(windowing: WindowSpec, operator: OperatorSpec, sinks: Mapping[str, Sink], *, changes: bool) -> None:
    """Warns where rows of sessions that have grown since would stay beside those of the longer ones.

    A session that fires, and then takes a row, is another window: nothing replaces the row of the shorter one but a changelog.
    """
    sink = sinks.get(MAIN)
    if sink is None or not sink.keeps_last or changes or not isinstance(windowing.assigner, MergingWindowAssigner):
        return
    early = windowing.trigger is not None and windowing.trigger != windowing.assigner.get_default_trigger()
    if not early and not windowing.allowed_lateness:
        return
    instead = "Write all rows and take the newest where you read them (docs/ideas/changelogs.md, early results of sessions)"
    if operator.why_no_changes is None:
        instead = "Add .changelog(), which deletes it"
    warnings.warn(
        f"the output {MAIN!r} ({sink.describe()}) keeps the last row of each key and window, and these windows grow: where one "
        f"has fired and then takes another row, its first row stays beside that of the longer window. {instead}",
        PanestreamWarning,
        stacklevel=3,
    )


__all__ = ["warn_of_stale_rows"]
