"""The site for tools: every page as Markdown next to its HTML, and ``llms.txt``, which lists them.

Three things differ from docs/: front matter is removed, drawings become their descriptions, and directives that read the code
(public names, commands) become their content.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import commands
import pages
import public_names

_FENCED = re.compile(
    r"^(?P<fence>```+)\{(?P<name>[\w-]+)\}(?P<argument>[^\n]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE
)
_ITEM = re.compile(r"^(?:- |\d+\. )[^\[\n]*\[(?P<title>[^\]]+)\]\((?P<target>[^)#\s]+\.md)\)(?P<words>[^\n]*)$", re.MULTILINE)
# From a line that begins with >>> to the next empty line, and the examples directly below.
_EXAMPLE = re.compile(r"(?:^ *>>>.*\n?(?:^ *\S.*\n?)*)+", re.MULTILINE)
SKILL = "reference/skill.md"
"""The page for coding assistants, which the site also has as ``SKILL.md``."""


def markdown(docname: str, with_links: Callable[[str, str], str], folder: Path = pages.DOCS) -> str:
    """Return a page as Markdown.

    Args:
        docname: the page, such as ``ideas/session``.
        with_links: changes links that leave the documentation to the place of those files on the site.
        folder: the folder of the language.
    """
    text = (folder / f"{docname}.md").read_text("utf-8")
    if docname != SKILL.removesuffix(".md"):
        text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^\{\.[\w-]+\}\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^:::.*\n", "", text, flags=re.MULTILINE)
    text = _FENCED.sub(_plain, text).replace("```python fragment\n", "```python\n").replace("```toml fragment\n", "```toml\n")
    return with_links(docname, text)


def _plain(block: re.Match[str]) -> str:
    if block["name"] == "timeline":
        said = dict(re.findall(r"^:(\w+): (.*)$", block["body"], re.MULTILINE))
        return f"*Drawing: {said.get('alt', '')} {said.get('caption', '')}".rstrip() + "*"
    if block["name"] == "commands":
        return commands.markdown()
    if block["name"] == "eval-rst":
        return "\n\n".join(entry for name in re.findall(r"public-names:: (\w+)", block["body"]) for entry in _entries(name))
    return str(block["body"])


def _entries(page: str) -> Iterator[str]:
    import panestream

    for dotted in public_names.names_by_page()[page]:
        value: Any = panestream
        for part in dotted.split("."):
            value = getattr(value, part)
        yield f"## `pst.{dotted}{'' if dotted in public_names.GIVEN else _signature(value)}`"
        yield _words(value)
        for member in public_names.members(value) if inspect.isclass(value) else []:
            own = inspect.getattr_static(value, member)
            its = getattr(value, member)
            yield f"### `{value.__name__}.{member}{_signature(its) if callable(its) else ''}`"
            yield _words(getattr(own, "fget", None) or its)


def _signature(value: Any) -> str:
    if not callable(value):
        return ""
    try:
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def _words(value: Any) -> str:
    """Return a docstring: its sections stay as they are, and examples become code."""
    text = inspect.getdoc(value) or ""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r":\w+:`~?([^`<]+)`", lambda role: f"`{role[1].removeprefix('panestream.')}`", text)
    return _EXAMPLE.sub(lambda found: f"```python\n{inspect.cleandoc(found[0])}\n```\n", text)


def llms(documents: set[str]) -> str:
    """Return ``llms.txt``: a summary, and every page with its line from the index pages. Decisions are one line."""
    home = (pages.DOCS / "index.md").read_text("utf-8")
    summary = " ".join(home.split("\n\n")[1].split())
    lines = [
        "# panestream",
        "",
        f"> {summary}",
        "",
        "Every page of this site is here as Markdown: replace `.html` by `.md`. Start with the skill, which has the API, its",
        "pitfalls and the way to find a missing row on one page.",
        "",
        "## Begin here",
        "",
        f"- [Skill for assistants]({SKILL})",
        "- [Home](index.md): the first example, with its output",
    ]
    listed = {"index", SKILL.removesuffix(".md")}
    for section in _ITEM.finditer(home):
        index = section["target"].removesuffix(".md")
        if index not in documents or not index.endswith("/index"):
            continue
        lines += ["", f"## {section['title']}", "", *_listed(index, documents, listed)]
    decisions = [name for name in sorted(documents - listed) if name.startswith("decisions/")]
    rest = sorted(documents - listed - set(decisions))
    if rest:
        lines += ["", "## More", "", *(f"- [{_title(name)}]({name}.md)" for name in rest)]
    if decisions:
        lines += ["", "## Optional", "", "- [Decisions](decisions/README.md): a page for each, with its reasons"]
    return "\n".join(lines) + "\n"


def _listed(index: str, documents: set[str], listed: set[str]) -> Iterator[str]:
    folder = index.rpartition("/")[0]
    if index not in listed:
        listed.add(index)
        yield f"- [{_title(index)}]({index}.md)"
    for item in _ITEM.finditer((pages.DOCS / f"{index}.md").read_text("utf-8")):
        name = _normal(f"{folder}/{item['target'].removesuffix('.md')}")
        if name in documents and name not in listed and name.startswith(f"{folder}/"):
            listed.add(name)
            words = re.sub(r"\]\([^)]*\)", "", item["words"]).replace("[", "")
            yield f"- [{item['title']}]({name}.md){words}"
            if name.endswith("/index"):
                yield from _listed(name, documents, listed)


def _normal(name: str) -> str:
    parts: list[str] = []
    for part in name.split("/"):
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def _title(docname: str) -> str:
    found = re.search(r"^# (.+)$", (pages.DOCS / f"{docname}.md").read_text("utf-8"), re.MULTILINE)
    return found[1].replace("`", "") if found else docname


def write(target: Path, documents: set[str], with_links: Callable[[str, str], str], folder: Path = pages.DOCS) -> None:
    """Write the pages below a site; for English also ``llms.txt``, and the skill by its usual name."""
    for docname in sorted(documents):
        file = target / f"{docname}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = markdown(docname, with_links, folder)
        for name in re.findall(r"\]\(((?:\.\./)*[\w/-]+(?:\.\w+)*\.json)\)", text):  # the HTML has copies of its own
            linked = (folder / docname).parent / name
            if linked.resolve().is_relative_to(pages.DOCS):
                shutil.copy(linked, file.parent / name)
        up = "../" * docname.count("/")
        text = re.sub(r"(!\[[^\]]*\])\((?:\.\./)+benchmarks/[\w/]*/([\w-]+\.png)\)", rf"\1({up}_images/\2)", text)
        file.write_text(text, "utf-8")
    if folder != pages.DOCS:
        return
    (target / "llms.txt").write_text(llms(documents), "utf-8")
    if SKILL.removesuffix(".md") in documents:
        skill = target / "skill" / "panestream" / "SKILL.md"
        skill.parent.mkdir(parents=True, exist_ok=True)
        absolute = re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", r"](../../reference/\1)", (target / SKILL).read_text("utf-8"))
        skill.write_text(absolute, "utf-8")
