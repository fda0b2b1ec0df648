"""Update the parts of docs/coming-from/flink-parity.md that come from the code, between its marks. The rest is written by hand.

The dictionary comes from the docstrings (``Flink: ...``). The counts come from running the recorded scenarios of Flink. The bugs
that are not imitated come from tests/conformance. A test fails if the page is outdated, or names something that does not exist,
or refers to a missing test.

    .venv/bin/python scripts/make_parity.py
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import panestream

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.conformance.executors import HarnessExecutor  # noqa: E402 - it is run as a program
from tests.conformance.runner import differences  # noqa: E402
from tests.conformance.scenario_format import Scenario, read_scenarios  # noqa: E402

PACKAGE = ROOT / "src" / "panestream"
PAGE = ROOT / "docs" / "coming-from" / "flink-parity.md"
CONFORMANCE = ROOT / "tests" / "conformance" / "scenarios"

_COUNTERPART = re.compile(r"(?<!\()Flink: (?!none)(.+?)(?:\.(?=\s|$)|$)", re.DOTALL)
_MARKED = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# ---------------------------------------------------------------- the dictionary


def dictionary() -> list[str]:
    """Return a line for each counterpart in a docstring of the vocabulary."""
    found: set[tuple[str, str]] = set()
    for room in ("windowing/**/*.py", "datastream/*.py", "testing/*.py"):
        for path in sorted(PACKAGE.glob(room)):
            module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
            found.update(_counterparts(ast.parse(path.read_text("utf-8")).body, module, ""))
    words = sorted(found, key=lambda pair: (pair[0].strip("`").lower(), pair[1]))
    return ["| Flink | panestream |", "|---|---|", *(f"| {flink} | `{ours}` |" for flink, ours in words)]


def _counterparts(body: list[ast.stmt], module: str, owner: str) -> Iterator[tuple[str, str]]:
    for node, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        name, text = _documented(node, following)
        if not name or name.startswith("_"):
            continue
        said = _COUNTERPART.search(text)
        if said is not None:
            yield " ".join(said.group(1).replace("``", "`").replace("|", "\\|").split()), _shown(module, owner, name)
        if isinstance(node, ast.ClassDef):
            yield from _counterparts(node.body, module, f"{name}.")


def _documented(node: ast.stmt, following: ast.stmt) -> tuple[str, str]:
    """Return the name and docstring of a class, a function, or an assignment with a string below it."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return node.name, ast.get_docstring(node) or ""
    if isinstance(node, ast.Assign) and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return getattr(node.targets[0], "id", ""), str(following.value.value)
    return "", ""


def _shown(module: str, owner: str, name: str) -> str:
    public = (owner or name).removesuffix(".")
    if public in panestream.__all__:
        return f"pst.{owner}{name}"
    for namespace in panestream._NAMESPACES:  # noqa: SLF001 - the one list
        if public in getattr(panestream, namespace).__all__:
            return f"pst.{namespace}.{owner}{name}"
    if (owner or name).removesuffix(".") in panestream.testing.__all__:
        return f"pst.testing.{owner}{name}"
    of_agg = module.startswith("panestream.windowing.aggregates.") and inspect.isfunction(getattr(panestream.agg, name, None))
    return f"agg.{name}" if of_agg else f"{module}.{owner}{name}"


# ---------------------------------------------------------------- what was compared


def scenarios() -> list[str]:
    """Return how many of Flink's recorded answers agree, by the features that they use."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    everything = _scenarios()
    for scenario in everything:
        agrees = not differences(scenario, HarnessExecutor(restore=True).run(scenario))
        for kind in {("all", "scenarios"), *_kinds(scenario)}:
            counts[kind][0] += agrees
            counts[kind][1] += 1
    lines = ["| | | agree |", "|---|---|---|"]
    for part in ("all", "assigner", "trigger", "evictor", "function", "lateness"):
        found = sorted((word, number) for (kind, word), number in counts.items() if kind == part)
        lines += [f"| {part if not at else ''} | {word} | {n} of {total} |" for at, (word, (n, total)) in enumerate(found)]
    return lines


def bugs() -> list[str]:
    """Return the scenarios with a different answer on purpose, and the reasons."""
    lines = ["| scenario | what happens |", "|---|---|"]
    return lines + [f"| `{scenario.name}` | {scenario.on_purpose} |" for scenario in _scenarios() if scenario.on_purpose]


def _scenarios() -> list[Scenario]:
    return [scenario for path in sorted(CONFORMANCE.glob("*.json")) for scenario in read_scenarios(path)]


def _kinds(scenario: Scenario) -> Iterator[tuple[str, str]]:
    spec = scenario.spec
    assigner, evictor = spec["assigner"], spec.get("evictor")
    kind = assigner["type"] + (", end of stream" if assigner.get("end_of_stream") else "")
    if assigner["type"] not in ("global", "count"):
        kind += f", {assigner.get('time', 'event')} time"
    yield "assigner", kind.replace("_", " ")
    yield "trigger", _trigger_of(spec.get("trigger")).replace("_", " ")
    yield "evictor", "none" if evictor is None else evictor["type"] + (", after" if evictor.get("after") else ", before")
    yield "function", spec["function"]["type"].replace("_", " ")
    yield "lateness", "allowed" if spec.get("allowed_lateness") else "not allowed"


def _trigger_of(spec: dict[str, Any] | None) -> str:
    if spec is None:
        return "the assigner's default"
    return f"{spec['type']} ({_trigger_of(spec['inner'])})" if "inner" in spec else str(spec["type"])


# ---------------------------------------------------------------- the page

PARTS: dict[str, Callable[[], list[str]]] = {"dictionary": dictionary, "scenarios": scenarios, "bugs": bugs}


def renewed(text: str) -> str:
    """Return the page with its generated parts updated."""
    return _MARKED.sub(lambda mark: mark[1] + "\n".join(PARTS[mark[2]]()) + "\n" + mark[3], text)


def unknown_names(text: str) -> list[str]:
    """Return the names of panestream in the page that do not exist."""
    found = re.findall(r"`(?:pst|panestream|agg)(?:\.\w+)+", text)
    return sorted({name for name in found if not _exists(name.strip("`").split("."))})


def _exists(parts: list[str]) -> bool:
    home: Any = panestream if parts[0] != "agg" else panestream.agg
    for at, part in enumerate(parts[1:], start=1):
        if not hasattr(home, part):
            try:
                __import__(".".join(parts[: at + 1]))
            except ModuleNotFoundError:
                # A field without a default is not an attribute of its class.
                return part in getattr(home, "__annotations__", {})
        home = getattr(home, part)
    return True


def lost_tests(text: str) -> list[str]:
    """Return the tests in the page that are missing from the file it links to."""
    return [
        f"{file}::{name}"
        for name, file in re.findall(r"\[(test_\w+)\]\((\S+?)\)", text)
        if f"def {name}(" not in (PAGE.parent / file).read_text("utf-8")
    ]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), encoding="utf-8")
    print(f"renewed {PAGE.relative_to(ROOT)}")
