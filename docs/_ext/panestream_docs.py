"""Sphinx extensions of panestream's pages: drawings, public names, commands, links out of the docs, Chinese."""

from __future__ import annotations

import html
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.index_entries import split_index_msg

sys.path.insert(0, str(Path(__file__).parent))

import commands
import markdown_pages
import pages
import public_names
from chinese import PairsOfCharacters

ROOT = pages.DOCS.parent
FILES = "_repository"
"""The folder of the site for copied files of the repository, if the repository's address is unknown."""

log = logging.getLogger(__name__)
_drawn: dict[str, list[str]] = {}
_copied: set[Path] = set()


def with_index(page: pages.Page, text: str) -> str:
    """Return the text with the words of its front matter (``search: unit test, pytest``) as entries of the index.

    The search shows a page first if a reader looks for one of its entries. These are the readers' words, which often differ from
    the title.
    """
    words = [each.strip() for each in page.front.get("search", "").split(",") if each.strip()]
    if not words:
        return text
    entries = "\n".join(f"```{{index}} ! single: {each}\n```" for each in words)
    head, mark, rest = text.partition("\n---\n")
    return f"{head}{mark}\n{entries}\n\n{rest}"


def keep_entries(app: Sphinx) -> list[Any]:
    """Add the entries of all pages to the search: Sphinx forgets those of pages that have not changed since the last build.

    An entry from the front matter leads to the top of its page. Its own place is empty, and the search could not quote it.
    """
    indexer = getattr(app.builder, "indexer", None)
    if indexer is not None:
        for docname, entries in app.env.domains.index_domain.entries.items():
            places = [
                (kind, text, "" if target.startswith("index-") else target, main) for kind, text, target, main, _ in entries
            ]
            words = {(word, target, main) for kind, text, target, main in places for word in split_index_msg(kind, text)}
            indexer._index_entries[docname] = sorted(words)  # noqa: SLF001 - it has no method for this
    return []


def hide_decisions(app: Sphinx, env: Any) -> None:
    """Leave the decisions out of the search: they repeat the words of the pages that answer questions."""
    for docname in env.found_docs:
        if docname.startswith("decisions/") and docname != "decisions/README":
            env.metadata[docname]["nosearch"] = True


# Drawings


def run_page(app: Sphinx, docname: str, content: list[str]) -> None:
    """Run a page with drawings before it is parsed, and store them for the directive."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    page = pages.read(path, content[0])
    content[0] = with_index(page, with_links(app, docname, content[0])) + table_of_contents(app, docname, content[0])
    if not page.of("{timeline}"):
        return
    # Run without Spark, because a page makes its drawings before it uses a session.
    _drawn[docname] = pages.run(page, draw=_svg, drawings_only=True).drawn


def _svg(expression: str, names: dict[str, Any]) -> str:
    from panestream.tools import timeline

    return str(eval(f"timeline({expression})", {**names, "timeline": timeline}).svg(themed=False))  # noqa: S307 - a page of this repository


class Timeline(SphinxDirective):
    """``{timeline} EXPRESSION``: the picture of a trace, drawn while the site is built, as part of the page."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"alt": str, "caption": str}  # noqa: RUF012 - docutils' way

    def run(self) -> list[nodes.Node]:
        """Return the drawing with its description in words."""
        waiting = _drawn.get(self.env.docname)
        if not waiting:
            raise ExtensionError(f"{self.env.docname}: a drawing that its page's run did not make")
        alt, caption = self.options.get("alt"), self.options.get("caption")
        if not alt:
            raise self.error("a drawing needs :alt:, what it shows in words")
        drawing = waiting.pop(0)
        drawing = re.sub(r"^<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*", "", drawing, flags=re.DOTALL)
        # Ids are unique to this drawing, whatever other drawings the page has.
        drawing = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>drawing-{len(waiting)}-", drawing)
        said = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        label = html.escape(alt, quote=True)
        inner = f'<div class="drawing" role="img" tabindex="0" aria-label="{label}">{drawing}</div>'
        return [nodes.raw("", f'<figure class="timeline">{inner}{said}</figure>', format="html")]


# Reference


class PublicNames(SphinxDirective):
    """``public-names:: PAGE`` (in ``eval-rst``): all public names of that page, from the docstrings."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return autodoc's nodes for the names."""
        import inspect

        import panestream

        lines: list[str] = []
        for name in public_names.names_by_page()[self.arguments[0]]:
            value: Any = panestream
            for part in name.split("."):
                value = getattr(value, part)
            if inspect.isclass(value):
                kind = "exception" if issubclass(value, BaseException) else "class"
                lines += [f".. auto{kind}:: panestream.{name}"]
                members = public_names.members(value)
                lines += [f"   :members: {', '.join(members)}", "   :member-order: bysource"] if members else []
                lines += [""]
            elif callable(value) and hasattr(value, "__name__"):
                lines += [f".. autofunction:: panestream.{name}", ""]
            else:
                lines += [f".. autodata:: panestream.{name}", "   :no-value:", ""]
        return self.parse_text_to_nodes("\n".join(lines))


class Commands(SphinxDirective):
    """``{commands}``: every command with its options, from the application."""

    def run(self) -> list[nodes.Node]:
        """Return the sections of the commands."""
        return self.parse_text_to_nodes(commands.markdown(), allow_section_headings=True)


def without_constructor(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str | None, returned: str | None
) -> tuple[str, str] | None:
    """Hide the constructor of objects that users receive and do not make."""
    given = what in ("class", "exception") and name.removeprefix("panestream.") in public_names.GIVEN
    return ("", "") if given else None


def with_pages(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Link a page of docs/ that a docstring names."""
    for at, line in enumerate(lines):
        lines[at] = re.sub(r"\bdocs/([\w/-]+)\.md\b", lambda found: f":doc:`/{found[1]}`", line)


# Links


_LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s]+)\)")


def with_links(app: Sphinx, docname: str, text: str) -> str:
    """Return the text with relative links that leave this build adapted to the site."""
    here = Path(app.env.doc2path(docname)).parent
    source = Path(app.srcdir).resolve()

    def turned(link: re.Match[str]) -> str:
        target = link["target"]
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target) or link["text"].startswith("!"):  # Sphinx copies images from anywhere
            return link[0]
        real = Path(os.path.normpath(here / path))
        if (real.is_relative_to(source) and not real.is_relative_to(pages.DOCS / "zh")) or not real.exists():
            return link[0]
        if source == pages.DOCS / "zh" and real.is_relative_to(source):
            return link[0]
        place = _place(app, docname, real)
        if place is None:
            return link["text"].removeprefix("!")[1:-1]
        if anchor:
            place = place.replace("site:", "place:", 1)
        return f"{link['text']}({place}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^ *```.*?^ *```[ \t]*$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if at % 2 else _LINK.sub(turned, part) for at, part in enumerate(parts))


def table_of_contents(app: Sphinx, docname: str, text: str) -> str:
    """Make the navigation from an index page's links below its folder, in that order, so that nothing is listed twice.

    The first page contains the indexes below it. ``why`` also contains the decisions.
    """
    folder, _, name = docname.rpartition("/")
    if name != "index" and docname != "decisions/README":
        return ""
    found: dict[str, None] = {}
    for link in _LINK.finditer(text):
        target = posixpath.normpath(posixpath.join(folder, link["target"].partition("#")[0]))
        below, stem = target.removesuffix(".md"), posixpath.basename(target).removesuffix(".md")
        if not target.endswith(".md") or target.startswith("..") or below == docname or not (Path(app.srcdir) / target).exists():
            continue
        inside = stem == "index" and target.count("/") == 1 if not folder else target.startswith(folder + "/")
        nested = folder and stem != "index" and target.count("/") > docname.count("/") and _has_index(app, target)
        if (inside and not nested) or (docname, below) == ("why/index", "decisions/README"):
            found[f"/{below}"] = None
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(found) + "\n```\n" if found else ""


def _has_index(app: Sphinx, target: str) -> bool:
    return (Path(app.srcdir) / posixpath.dirname(target) / "index.md").exists()


def _place(app: Sphinx, docname: str, real: Path) -> str | None:
    """Return the location of a file outside of this build: the other language, the repository, or the copied files."""
    chinese = app.config.language.startswith("zh")
    up = posixpath.dirname(docname).count("/") + (1 if "/" in docname else 0)
    if real.is_relative_to(pages.DOCS) and real.suffix == ".md":
        below = real.relative_to(pages.DOCS).with_suffix(".html").as_posix()
        return f"site:{'../' * (up + chinese)}{below}"
    inside = real.relative_to(ROOT).as_posix()
    repository = app.config.panestream_repository
    if repository:
        return f"{repository}/{'tree' if real.is_dir() else 'blob'}/main/{inside}"
    if real.is_dir():
        if not (real / "README.md").exists():
            return None
        real, inside = real / "README.md", f"{inside}/README.md"
    _copied.add(real)
    return f"site:{'../' * (up + chinese)}{FILES}/{inside}.txt"


def copy_files(app: Sphinx, exception: Exception | None) -> None:
    """Copy files of the repository that pages link to into the site."""
    if exception or app.builder.format != "html":
        return
    top = Path(app.outdir).parent if app.config.language.startswith("zh") else Path(app.outdir)
    for real in sorted(_copied):
        copy = top / FILES / f"{real.relative_to(ROOT).as_posix()}.txt"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(real, copy)


def write_markdown(app: Sphinx, exception: Exception | None) -> None:
    """Write each page to the site as Markdown too, and list them in ``llms.txt``."""
    folder = Path(app.srcdir).resolve()
    if exception or app.builder.format != "html" or folder not in (pages.DOCS, pages.DOCS / "zh"):
        return
    documents = set(app.env.found_docs)
    markdown_pages.write(Path(app.outdir), documents, lambda docname, text: _as_markdown(app, docname, text), folder)


def _as_markdown(app: Sphinx, docname: str, text: str) -> str:
    """Return the text with links to files, without the schemes that the HTML builder reads."""
    return re.sub(r"\((?:site|place):([^)#]*)", r"(\1", with_links(app, docname, text))


# The other language


def other_language(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Pass the template the link to the page in the other language, or to its start page without a translation."""
    chinese = app.config.language.startswith("zh")
    up = "../" * pagename.count("/")
    if chinese:
        there = (pages.DOCS / f"{pagename}.md").exists()
        context["other_language"] = ("English", "en", f"../{up}{pagename if there else 'index'}.html")
    elif (pages.DOCS / "zh").is_dir():
        there = (pages.DOCS / "zh" / f"{pagename}.md").exists()
        context["other_language"] = ("中文", "zh", f"{up}zh/{pagename if there else 'index'}.html")


def other_versions(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Pass the template this version, and the addresses of the others."""
    names = app.config.panestream_versions
    if names:
        up = "../" * (pagename.count("/") + 1 + app.config.language.startswith("zh"))
        context["versions"] = (names[0], [(name, f"{up}{name}/index.html") for name in names[1:]])


def setup(app: Sphinx) -> dict[str, Any]:
    """Set up the extension, as Sphinx requires."""
    app.add_config_value("panestream_repository", "", "env")
    app.add_config_value("panestream_versions", [], "html")
    app.add_directive("timeline", Timeline)
    app.add_directive("public-names", PublicNames)
    app.add_directive("commands", Commands)
    app.add_search_language(PairsOfCharacters)
    app.connect("source-read", run_page)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("autodoc-process-docstring", with_pages)
    app.connect("html-collect-pages", keep_entries)
    app.connect("env-check-consistency", hide_decisions)
    app.connect("html-page-context", other_language)
    app.connect("html-page-context", other_versions)
    app.connect("build-finished", write_markdown)
    app.connect("build-finished", copy_files)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
