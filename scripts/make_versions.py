"""Builds the published site in build/site: ``latest`` from the work tree, and each tagged version in a folder of its own.

    .venv/bin/python scripts/make_versions.py [FOLDER]

Of each minor version only the newest tag is built, with the pages and the code of that tag. The first page leads to the newest
release, or to ``latest`` before the first one. No network is used.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LATEST = "latest"
"""The folder of what is not released yet."""
_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def chosen(tags: Iterable[str]) -> list[str]:
    """Return the newest version of each minor version, newest first, from the tags of releases.

    >>> chosen(["v0.1.0", "v0.1.10", "v0.1.9", "v0.2.0", "v0.3.0rc1", "nightly"])
    ['0.2.0', '0.1.10']
    """
    newest: dict[tuple[int, int], int] = {}
    for tag in tags:
        found = _TAG.fullmatch(tag)
        if found:
            major, minor, patch = map(int, found.groups())
            newest[major, minor] = max(patch, newest.get((major, minor), 0))
    return [f"{major}.{minor}.{patch}" for (major, minor), patch in sorted(newest.items(), reverse=True)]


def build(target: Path, root: Path = ROOT) -> list[str]:
    """Build every version below a folder; return their names, the one that is shown first at the beginning.

    Raises:
        subprocess.CalledProcessError: a version cannot be built.
    """
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=root, capture_output=True, text=True, check=True)  # noqa: S607
    released = chosen(tags.stdout.split())
    names = [LATEST, *released]
    for name in names:
        if name == LATEST:
            _build_one(root, target / name, name, names)
            continue
        with tempfile.TemporaryDirectory(prefix="panestream-version-") as folder:
            _unpack(root, f"v{name}", Path(folder))
            _build_one(Path(folder), target / name, name, names)
    ordered = [*released, LATEST]
    write_first_pages(target, ordered)
    return ordered


def _unpack(root: Path, tag: str, folder: Path) -> None:
    packed = folder / "tree.tar"
    subprocess.run(["git", "archive", "--output", packed, tag], cwd=root, check=True)  # noqa: S603, S607 - a tag of this repository
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    packed.unlink()


def _build_one(source: Path, target: Path, name: str, names: Sequence[str]) -> None:
    others = [each for each in names if each != name]
    environment = {**os.environ, "PANESTREAM_VERSIONS": " ".join([name, *others]), "PYTHONPATH": str(source / "src")}
    command = [sys.executable, str(source / "scripts" / "make_docs.py"), str(target)]
    subprocess.run(command, cwd=source, env=environment, check=True)  # noqa: S603 - the script of that version


def write_first_pages(target: Path, names: Sequence[str]) -> None:
    """Write what is above the versions: the page that leads to the first of them, the list of all, and ``llms.txt``."""
    first = names[0]
    page = (
        f'<!doctype html>\n<meta charset="utf-8">\n<title>panestream</title>\n'
        f'<meta http-equiv="refresh" content="0; url={first}/index.html">\n<link rel="canonical" href="{first}/index.html">\n'
        f'<p><a href="{first}/index.html">panestream {first}</a></p>\n'
    )
    (target / "index.html").write_text(page, "utf-8")
    (target / "versions.json").write_text(json.dumps(list(names)) + "\n", "utf-8")
    listed = target / first / "llms.txt"
    if listed.exists():  # older versions do not have it
        text = re.sub(r"\]\((?!https?:)", f"]({first}/", listed.read_text("utf-8"))
        (target / "llms.txt").write_text(text, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    site = parser.parse_args().folder.resolve()
    print("built", *build(site), "in", site)
