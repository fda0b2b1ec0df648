"""Small tmpfs disks that can be filled up, or made read-only, while a query writes to them.

Mounting needs root. A process becomes root of a new namespace with ``unshare --user --map-root-user --mount``
(:func:`as_root`).
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MEGABYTES = 48
OWN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


class NoDiskError(RuntimeError):
    """This machine does not allow mounting a disk. The message gives the reason."""


@dataclass(frozen=True)
class Disk:
    """A mounted tmpfs."""

    folder: Path

    @property
    def _filler(self) -> Path:
        return self.folder / ".filler"

    def fill(self) -> None:
        """Write until the disk is full."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def refuse(self) -> bool:
        """Make the disk read-only, or return False if a file stayed open for writing all the time."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            if _mount("-o", "remount,ro", str(self.folder)) is None:
                return True
            time.sleep(0.01)
        return False

    def mend(self) -> None:
        """Make the disk writable and free again."""
        _mount("-o", "remount,rw", str(self.folder))
        self._filler.unlink(missing_ok=True)


def _mount(*arguments: str) -> str | None:
    """Run ``mount`` and return its error message, or None if it succeeded."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip() or f"mount ended with {done.returncode}")


@contextmanager
def mounted(folders: Sequence[Path]) -> Iterator[list[Disk]]:
    """Mount a disk at each of these folders.

    Raises:
        NoDiskError: Mounting is not possible here.
    """
    disks: list[Disk] = []
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            against = "there is no command mount" if shutil.which("mount") is None else None
            against = against or _mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "panestream-crashes", str(folder))
            if against is not None:
                raise NoDiskError(f"no tmpfs can be mounted: {against}")
            disks.append(Disk(folder))
        yield disks
    finally:
        for disk in disks:
            subprocess.run(["umount", "--lazy", str(disk.folder)], check=False)


def as_root(module: str) -> None:
    """Restart this program as root of a new namespace, if it is not root and namespaces are allowed."""
    if os.geteuid() == 0 or "PANESTREAM_NAMESPACE" in os.environ or shutil.which("unshare") is None:
        return
    if subprocess.run([*OWN_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0:
        os.environ["PANESTREAM_NAMESPACE"] = "1"
        os.execvp(OWN_NAMESPACE[0], [*OWN_NAMESPACE, sys.executable, "-m", module, *sys.argv[1:]])
