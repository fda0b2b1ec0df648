"""Tools that inspect a query: reasons for a window's result, pictures, reports, advice.

>>> rows = df.withColumn("received", F.expr("if(user = 'bob', ts, ts + INTERVAL 30 MINUTES)"))
>>> pst.tools.lateness(rows, "ts", "received").behind
1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panestream.lazy_names import LazyNames

if TYPE_CHECKING:
    from panestream.datastream.tile_files import TileFiles as TileFiles
    from panestream.insight.advice import DelayCost as DelayCost
    from panestream.insight.advice import Lateness as Lateness
    from panestream.insight.lateness import lateness as lateness
    from panestream.insight.live import live as live
    from panestream.insight.report_recording import RunReport as RunReport
    from panestream.insight.timeline import Timeline as Timeline
    from panestream.insight.timeline import timeline as timeline
    from panestream.spark.open_lineage.emitter import OpenLineage as OpenLineage
    from panestream.spark.session import ship as ship
    from panestream.tracing.events import Trace as Trace
    from panestream.tracing.why import why as why

_NAMES = LazyNames(__name__)
if not TYPE_CHECKING:  # a type checker must refuse unknown names
    __getattr__, __dir__ = _NAMES.get, _NAMES.names
