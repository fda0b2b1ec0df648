"""Shared fixtures of the tests of pages: the path of the site's modules, and the site, built once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "docs" / "_ext") not in sys.path:
    sys.path.append(str(ROOT / "docs" / "_ext"))


def _built(target: Path) -> Path:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_docs.py", target],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-6000:]
    return target


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it. Every warning fails it. Workers share one."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return _built(tmp_path_factory.mktemp("site") / "docs")
    shared = tmp_path_factory.getbasetemp().parent / "site"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return shared / "docs" if (shared / "docs" / "zh" / "index.html").exists() else _built(shared / "docs")
