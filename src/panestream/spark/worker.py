"""A cache in Spark's Python workers, kept between tasks: the directories of the archives on their path.

Archives from ``spark.jars.packages`` are on the workers' path, and in Spark 4.1 each task starts with
``importlib.invalidate_caches()``. Python then reads the directories of all these jars again (before 3.13 at once), with tens of
thousands of names, which delays every task of a small micro-batch. The files do not change while a worker runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipimport import zipimporter


class UnchangedArchive(zipimporter):
    """An importer for an archive that reads the directory again only if the file was replaced."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen = _identity(self.archive)

    def invalidate_caches(self) -> None:
        found = _identity(self.archive)
        if found is None or found != self._seen:
            self._seen = found
            super().invalidate_caches()


def cache_zip_imports() -> None:
    """Make Python read the archives on its path once, not in every task. Call this at the start of each of our tasks.

    The path stays complete, so Spark does not add anything again, and imports from jars (Delta's), zip files and eggs still work.
    Nothing is read here, as Python shares the directories that the replaced importers have read.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        # Not subclasses, which are ours or have other behaviour.
        if type(finder) is zipimporter:
            try:
                sys.path_importer_cache[path] = UnchangedArchive(path)
            except Exception:  # noqa: BLE001, S112 - a missing file must not fail the task; Python continues as before
                continue


def _identity(path: str) -> tuple[int, int, int] | None:
    """Return a fingerprint that changes when the file is replaced, or None for a missing file."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
