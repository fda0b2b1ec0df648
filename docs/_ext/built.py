"""Check a built site: every internal link leads to an existing page, and every anchor to a place on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Found:
    """The counts and faults of a site.

    Attributes:
        pages: the number of pages.
        links: the number of internal links that were followed, including navigation.
        anchors: the number of links to a place on a page.
        external: the number of external links, which are not followed.
        drawings: the number of pictures that the library drew.
        faults: the faults, as ``page: fault``.
    """

    pages: int = 0
    links: int = 0
    anchors: int = 0
    external: int = 0
    drawings: int = 0
    faults: list[str] = field(default_factory=list)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.drawings = 0
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if said.get("id"):
            self.ids.append(str(said["id"]))
        if tag == "a" and said.get("href"):
            self.links.append(str(said["href"]))
        if tag in ("img", "script", "link") and (said.get("src") or said.get("href")):
            self.loads.append(str(said.get("src") or said.get("href")))
        if tag == "figure" and "timeline" in (said.get("class") or ""):
            self.drawings += 1


def look(folder: Path) -> Found:
    """Count the parts of a site in a folder, and find its faults."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    found = Found(pages=len(pages))
    for path, page in pages.items():
        found.drawings += page.drawings
        name = path.relative_to(folder.resolve()).as_posix()
        double = {each for each in page.ids if page.ids.count(each) > 1}
        found.faults += [f"{name}: the id {each!r} is there twice" for each in sorted(double)]
        for link in page.links:
            if urlsplit(link).scheme or link.startswith("//"):
                found.external += 1
                continue
            found.links += 1
            found.anchors += "#" in link and len(link) > 1
            found.faults += [f"{name}: {fault}" for fault in _wrong(path, link, pages)]
        for load in page.loads:
            if urlsplit(load).scheme in ("http", "https") or load.startswith("//"):
                found.faults.append(f"{name}: loads {load} from the network")
            elif urlsplit(load).scheme != "data":
                found.faults += [f"{name}: {fault}" for fault in _wrong(path, load, pages)]
    return found


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def _wrong(path: Path, link: str, pages: dict[Path, _Page]) -> Iterator[str]:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        yield f"leads to {link}, which is not there"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        yield f"leads to {link}: there is no such place on that page"
