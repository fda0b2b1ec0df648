"""Write the checkpoints and savepoints that every later version must read: ``python -m scripts.make_golden [NAME …]``.

Each query of ``tests/golden/queries.py`` gets a file. It has a checkpoint after some micro-batches, the values of its state, how
they are shown, and later rows. One query of each operator also gets a savepoint of that checkpoint. Existing files stay
unchanged, because a version's output must not change afterwards.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import warnings
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panestream as pst
from panestream.engine.savepoint.plans import plan_json
from panestream.engine.storage.sealed_state import SEAL_VERSION
from panestream.spark.compat import group_number
from panestream.spark.savepoint.decode import groups_in
from panestream.spark.savepoint.manifest import SAVEPOINT_FORMAT
from panestream.testing import MicroBatches
from tests.golden.files import read_json, unpack_checkpoint
from tests.golden.queries import KEPT, QUERIES, ROWS, SCHEMA, over
from tests.golden.shown import outputs_after_resuming, shown_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden" / f"state-{SEAL_VERSION}"

# The savepoints in savepoint-1 are from before savepoints had checksums.
SAVEPOINTS = FOLDER.parent / f"savepoint-{SAVEPOINT_FORMAT}-with-checksums"
BEFORE_CHECKSUMS = ("panes", "sessions", "counts", "accumulating", "row")
OF_EACH_OPERATOR = (*BEFORE_CHECKSUMS, "look backs", "predicates", "intervals", "join", "co group", "tiles")
"""One query of each operator, and of joins and tiles."""


def _without_times(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.name.endswith(".crc"):
        return None
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _add(packed: tarfile.TarFile, name: str, what: Any) -> None:
    text = json.dumps(what, indent=0, ensure_ascii=False).encode()
    info = tarfile.TarInfo(name)
    info.size = len(text)
    packed.addfile(info, BytesIO(text))


def values_of(state: pst.state.CheckpointState) -> dict[str, Any]:
    """Return the plan, and the stored values of each key group: ``[space, number, value in base 64]``."""
    groups: dict[str, list[Any]] = {}
    for group, values in groups_in(state.stored.values().toArrow().to_batches()):
        found = [[space, number, b64encode(value).decode()] for (space, number), value in sorted(values.values.items())]
        groups[str(group_number(state.plan.groups, group))] = found
    return {"plan": plan_json(state.plan), "groups": groups}


def make(spark: SparkSession, name: str, file: Path) -> None:
    """Write the file of one query."""
    with tempfile.TemporaryDirectory() as scratch:
        rows, checkpoint = MicroBatches(spark, f"{scratch}/in", SCHEMA), f"{scratch}/checkpoint"
        for batch in ROWS[:KEPT]:
            rows.add(batch)
        outputs_after_resuming(over(rows, name), checkpoint, KEPT)
        values = values_of(pst.state.read_checkpoint(spark, checkpoint))
        with tarfile.open(f"{scratch}/made.tar.gz", "w:gz") as packed:
            packed.add(checkpoint, "checkpoint", filter=_without_times)
            _add(packed, "values.json", values)
            _add(packed, "shown.json", shown_of(values))
            for batch in ROWS[KEPT:]:
                rows.add(batch)
            _add(packed, "afterwards.json", outputs_after_resuming(over(rows, name), checkpoint, len(ROWS)))
        shutil.move(f"{scratch}/made.tar.gz", file)


def make_savepoint(spark: SparkSession, checkpoint_file: Path, file: Path) -> None:
    """Make the savepoint of a saved checkpoint, and the output of a query that resumed from the checkpoint."""
    with tempfile.TemporaryDirectory() as scratch:
        MicroBatches(spark, f"{scratch}/in", SCHEMA)
        checkpoint = unpack_checkpoint(checkpoint_file, Path(scratch))
        saved = pst.savepoint(spark, str(checkpoint), f"{scratch}/savepoint")
        with tarfile.open(f"{scratch}/made.tar.gz", "w:gz") as packed:
            packed.add(f"{scratch}/savepoint", "savepoint", filter=_without_times)
            _add(packed, "plan.json", plan_json(saved.plan))
            _add(packed, "afterwards.json", read_json(checkpoint_file, "afterwards"))
        shutil.move(f"{scratch}/made.tar.gz", file)


def main() -> None:
    """Run the command."""
    warnings.simplefilter("ignore")
    spark = pst.build_session("golden", {"spark.ui.enabled": "false"}, master="local[2]")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or QUERIES:
        file = FOLDER / f"{name.replace(' ', '_')}.tar.gz"
        if file.exists():
            print(f"{file.name}: is there")
            continue
        make(spark, name, file)
        print(f"{file.name}: {file.stat().st_size:,} bytes")
    SAVEPOINTS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or OF_EACH_OPERATOR:
        file = SAVEPOINTS / f"{name.replace(' ', '_')}.tar.gz"
        if not file.exists():
            make_savepoint(spark, FOLDER / file.name, file)
            print(f"{file.parent.name}/{file.name}: {file.stat().st_size:,} bytes")
    spark.stop()


if __name__ == "__main__":
    main()
