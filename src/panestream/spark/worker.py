"""What Spark's Python workers remember from task to task: the directories of the archives on their path.

What ``spark.jars.packages`` brings is on the path of the workers, and in Spark 4.1 each task begins with
``importlib.invalidate_caches()``: Python reads the directories of all these jars again (before 3.13 at once), tens of thousands
of names, and every task of a small micro-batch waits for it. None of these files changes while a worker lives.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipimport import zipimporter


class UnchangedArchive(zipimporter):
    """Imports from an archive, whose directory it reads again only if the file is another one than before."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen = _identity(self.archive)

    def invalidate_caches(self) -> None:
        found = _identity(self.archive)
        if found is None or found != self._seen:
            self._seen = found
            super().invalidate_caches()


def remember_archives() -> None:
    """Has the archives on Python's path read once, not in every task; called where a task of ours begins.

    Nothing is taken off the path, so that Spark does not put it back, and what can be imported stays the same: Python code in
    jars (Delta's), in zip files and in eggs. Reads nothing: what is replaced here has read its directory, and Python shares it.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        # No subclasses: they are ours, or have a mind of their own.
        if type(finder) is zipimporter:
            try:
                sys.path_importer_cache[path] = UnchangedArchive(path)
            except Exception:  # noqa: BLE001, S112 - a file that is gone is no reason for a task to fail; Python goes on as before
                continue


def _identity(path: str) -> tuple[int, int, int] | None:
    """What tells a file from one that took its place; None: there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
