"""The kept files: what lies in one, and one laid out such that its query goes on from it here."""

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
    """The name of its query."""
    return file.name.removesuffix(".tar.gz").replace("_", " ")


def kept(file: Path, name: str) -> Any:
    """What one of its JSON documents says."""
    with tarfile.open(file) as packed:
        found = packed.extractfile(f"{name}.json")
        assert found is not None
        return json.load(found)


def laid_out(file: Path, folder: Path) -> Path:
    """Its checkpoint in a folder, whose input lies in ``in`` beside it.

    Spark wrote down where all this was when it was made: its input, and the schema of its state.
    """
    with tarfile.open(file) as packed:
        packed.extractall(folder)
    checkpoint = folder / "checkpoint"
    for log in (*checkpoint.glob("sources/*/*"), *checkpoint.glob("state/*/_metadata/**/*")):
        if log.is_file():
            told = re.sub(r"file:/[^\"]*/(in|checkpoint)/", folder.as_uri() + r"/\1/", log.read_text("utf-8"))
            log.write_text(told, "utf-8")
    return checkpoint
