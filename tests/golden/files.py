"""Read the stored checkpoints and savepoints of earlier versions, and unpack them so that a query can resume here."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CHECKPOINTS = sorted(HERE.glob("state-*/*.tar.gz"))
SAVEPOINTS = sorted(HERE.glob("savepoint-*/*.tar.gz"))


def query_of(file: Path) -> str:
    """Return the name of the query that wrote a file."""
    return file.name.removesuffix(".tar.gz").replace("_", " ")


def read_json(file: Path, name: str) -> Any:
    """Read one of the JSON documents in a file."""
    with tarfile.open(file) as packed:
        found = packed.extractfile(f"{name}.json")
        assert found is not None
        return json.load(found)


def unpack_checkpoint(file: Path, folder: Path) -> Path:
    """Unpack a checkpoint into a folder, next to its input in ``in``, and return its path.

    Spark's logs hold the absolute paths of the input and of the state's schema. They are replaced by paths in this folder.
    """
    with tarfile.open(file) as packed:
        packed.extractall(folder)
    checkpoint = folder / "checkpoint"
    for log in (*checkpoint.glob("sources/*/*"), *checkpoint.glob("state/*/_metadata/**/*")):
        if log.is_file():
            told = re.sub(r"file:/[^\"]*/(in|checkpoint)/", folder.as_uri() + r"/\1/", log.read_text("utf-8"))
            log.write_text(told, "utf-8")
    return checkpoint
