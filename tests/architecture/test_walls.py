"""The rules of the architecture, checked by reading the code.

A rule is a function that takes a module and returns its violations. It runs over the whole package, and over planted violations
that it must find. A rule that cannot fail would prove nothing.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_origin

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
PACKAGE = SRC / "panestream"

# The packages that each package may import. Add every new package here.
LAYERS: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "windowing": frozenset({"errors"}),
    "engine": frozenset({"errors", "windowing"}),
    "tracing": frozenset({"errors", "windowing", "engine"}),
    "spark": frozenset({"errors", "windowing", "engine", "tracing"}),
    "datastream": frozenset({"errors", "windowing", "engine", "spark", "tracing"}),
    "metrics": frozenset({"errors", "spark"}),
    "insight": frozenset({"errors", "windowing", "engine", "tracing", "spark", "datastream"}),
    "testing": frozenset({"errors", "windowing", "engine", "spark", "datastream", "tracing"}),
    "jobs": frozenset({"errors", "windowing", "engine", "spark", "insight", "metrics", "datastream", "testing", "tracing"}),
    "lazy_names": frozenset({"errors", "windowing"}),
}
PUBLIC_MODULES = ("evictors", "functions", "order", "sinks", "state", "tools", "triggers", "windows")
"""Modules of one file that only list public names."""
LAYERS |= dict.fromkeys(PUBLIC_MODULES, frozenset(LAYERS))
# The same within the engine. Packages that are not listed (operators, planner, explain) may import the whole engine.
ENGINE_LAYERS: dict[str, frozenset[str]] = {
    "kernels": frozenset({"kernels"}),
    "storage": frozenset({"kernels", "storage"}),
    "aggregates": frozenset({"kernels", "aggregates"}),
    "plan": frozenset({"kernels", "storage", "runtime"}),
    "runtime": frozenset({"kernels", "storage", "plan", "runtime"}),
    "exchange": frozenset({"kernels", "storage", "plan", "runtime", "exchange"}),
}
# A function may import upwards, but never when its module is imported: module, room and the reason.
LAZY_IMPORTS: dict[tuple[str, str], str] = {
    ("spark/savepoint/inspectable_state.py", "insight"): "a notebook shows a state as a page, and nothing else needs pages"
}
# Modules that may import the top-level package although it is above them, with the reason.
KNOWS_THE_PACKAGE: dict[str, str] = {}
SPARK_ROOMS = frozenset({"spark", "datastream", "jobs", "testing", "metrics", "insight"})
PURE_ROOMS = frozenset({"windowing", "engine", "errors", "tracing"})
# Pages and pictures follow from what they show, so they have no clock and no Spark. The other modules of insight run queries.
RUNS_QUERIES = frozenset(
    {"insight/lateness.py", "insight/live.py", "insight/report_points.py", "insight/report_recording.py", "insight/report.py"}
)

# Clocks, randomness, and dynamic imports.
IMPURE_MODULES = frozenset({"time", "random", "secrets", "uuid", "importlib", "threading", "socket", "subprocess"})
# Path below the package and module, with the reason.
ALLOWED_IMPURITIES: dict[tuple[str, str], str] = {
    (
        "windowing/discovery.py",
        "importlib",
    ): "the modules of a package of aggregates are found where they lie, all of this package",
}
CLOCK_READINGS = frozenset({"now", "utcnow", "today"})

DANGEROUS_NAMES = frozenset({"eval", "exec", "compile", "__import__"})
UNPICKLERS = frozenset({"pickle", "cloudpickle", "marshal", "dill", "shelve"})
UNPICKLING = frozenset({"load", "loads", "Unpickler"})
# Path below the package and the allowed call, with the reason.
ALLOWED_DANGERS: dict[tuple[str, str], str] = {
    (
        "engine/operators/row/codec.py",
        "pickle.loads",
    ): "state of Python functions without a schema: pickled by the query itself, in its own checkpoint",
    ("spark/operator/processor.py", "pickle.loads"): "the plan, inside what Spark pickles and ships to the query's own workers",
}

JVM_DOORS = frozenset({"_jvm", "_jsc", "_jdf", "_jc", "_jgd", "_jsparkSession", "_gateway", "sparkContext", "_sc", "rdd"})
# Path below the package, with the reason.
ALLOWED_PANDAS: dict[str, str] = {
    "spark/operator/processor.py": "Spark 4.0 hands data frames to stateful operators, and nothing else"
}
ALLOWED_DOORS: dict[tuple[str, str], str] = {}

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60  # without its docstring


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(text)))


@dataclass(frozen=True)
class Module:
    """A module of the package: its path below the package, e.g. ``engine/plan.py``, and its text."""

    path: str
    text: str

    @property
    def room(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Yield the line and full name of every import in the module, with relative imports made absolute."""
        parts = ["panestream", *self.path.split("/")[:-1]]
        for node in nodes(self.text):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = parts[: len(parts) - node.level + 1] if node.level else []
                origin = ".".join([*base, *([node.module] if node.module else [])])
                yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)

    @property
    def is_pure(self) -> bool:
        """Whether the module must have neither a clock nor Spark."""
        return self.room in PURE_ROOMS or (self.room == "insight" and self.path not in RUNS_QUERIES)

    def may_import_later(self, room: str, line: int) -> bool:
        """Whether an import upwards at a line is allowed: in a function, with a reason."""
        functions = [node for node in nodes(self.text) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        inside = any(each.lineno <= line <= (each.end_lineno or 0) for each in functions)
        return inside and (self.path, room) in LAZY_IMPORTS


@cache
def modules() -> list[Module]:
    return [Module(path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]


def imports_run_one_way(module: Module) -> Iterator[str]:
    if module.path == "__init__.py":
        return  # the public names come from all packages
    if module.room not in LAYERS:
        yield f"{module.path}: panestream.{module.room} has no place in LAYERS yet"
        return
    for line, name in module.imports():
        if name.split(".")[0] != "panestream":
            continue
        room = name.split(".")[1] if "." in name else ""
        # The command line uses the public names, as users do.
        if room not in LAYERS:
            if module.room not in ("jobs", "testing") and module.path not in KNOWS_THE_PACKAGE:
                yield f"{module.path}:{line}: imports {name}: only jobs and testing may use the package's public names"
        elif room != module.room and room not in LAYERS[module.room] and not module.may_import_later(room, line):
            yield f"{module.path}:{line}: {module.room} imports from {room}"


def the_engine_is_built_upwards(module: Module) -> Iterator[str]:
    parts = [part.removesuffix(".py") for part in module.path.split("/")]
    if parts[0] != "engine" or parts[1] not in ENGINE_LAYERS:
        return
    for line, name in module.imports():
        target = name.split(".")
        if target[:2] == ["panestream", "engine"] and len(target) > 2 and target[2] not in ENGINE_LAYERS[parts[1]]:
            yield f"{module.path}:{line}: {parts[1]} imports from engine.{target[2]}"


def circles(every: list[Module]) -> list[list[str]]:
    """Return the circles of modules that import each other, also for types only, as lists of paths."""
    names = {
        "panestream." + module.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): module for module in every
    }

    def imported(module: Module) -> set[str]:
        # "from a import b" names the module a.b, or a name in the module a.
        named = {name if name in names else name.rpartition(".")[0] for _, name in module.imports()}
        return {names[name].path for name in named if name in names} - {module.path}

    reach = {module.path: imported(module) for module in every}
    for path, through in reach.items():
        # Extend all routes by this module. After the last module, all routes are known.
        for others in reach.values():
            if path in others:
                others.update(through)
    found = {tuple(sorted(b for b in there if a in reach[b])) for a, there in reach.items() if a in there}
    return [list(circle) for circle in sorted(found)]


def only_spark_rooms_touch_pyspark(module: Module) -> Iterator[str]:
    if (module.room in SPARK_ROOMS and not module.is_pure) or module.path == "__init__.py":
        return
    for line, name in module.imports():
        if name.split(".")[0] in ("pyspark", "py4j"):
            yield f"{module.path}:{line}: imports {name}"


def pure_rooms_have_no_clock(module: Module) -> Iterator[str]:
    if not module.is_pure:
        return
    for line, name in module.imports():
        root = name.split(".")[0]
        if root in IMPURE_MODULES and (module.path, root) not in ALLOWED_IMPURITIES:
            yield f"{module.path}:{line}: imports {name}"
    for node in nodes(module.text):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
            if node.attr in CLOCK_READINGS and owner in ("datetime", "date", "Timestamp"):
                yield f"{module.path}:{node.lineno}: reads the clock: {owner}.{node.attr}"
            if node.attr == "random" and owner in ("np", "numpy"):
                yield f"{module.path}:{node.lineno}: draws by chance: {owner}.random"


def nothing_runs_foreign_code(module: Module) -> Iterator[str]:
    found: list[tuple[int, str]] = []
    for node in nodes(module.text):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DANGEROUS_NAMES:
            found.append((node.lineno, node.func.id))
        if isinstance(node, ast.Attribute) and node.attr in UNPICKLING:
            owner = getattr(node.value, "id", "")
            found += [(node.lineno, f"{owner}.{node.attr}")] if owner in UNPICKLERS else []
        if isinstance(node, ast.ImportFrom) and node.module in UNPICKLERS:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names if alias.name in UNPICKLING]
    yield from (
        f"{module.path}:{line}: {what}, which is not in ALLOWED_DANGERS"
        for line, what in found
        if (module.path, what) not in ALLOWED_DANGERS
    )


def nobody_opens_the_jvm(module: Module) -> Iterator[str]:
    for node in nodes(module.text):
        name = node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            name = str(getattr(node.args[1], "value", ""))
        if name in JVM_DOORS and (module.path, name) not in ALLOWED_DOORS:
            yield f"{module.path}:{node.lineno}: .{name} does not exist through Spark Connect"


def nothing_is_long(module: Module) -> Iterator[str]:
    lines = len(module.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{module.path}: {lines} lines, more than {MAX_FILE_LINES}"
    for node in nodes(module.text):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            documented = (
                isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
            )
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            length = (node.end_lineno or 0) - node.lineno + 1 - docstring
            if length > MAX_FUNCTION_LINES:
                yield f"{module.path}:{node.lineno}: {node.name} has {length} lines, more than {MAX_FUNCTION_LINES}"


def pandas_is_never_needed(module: Module) -> Iterator[str]:
    for line, name in module.imports():
        if name.split(".")[0] == "pandas" and module.path not in ALLOWED_PANDAS:
            yield f"{module.path}:{line}: imports {name}"
    # pyarrow imports pandas to look up the numpy type of a pyarrow type (25.0 does, 26.0 does not).
    for node in nodes(module.text):
        if isinstance(node, ast.Attribute) and node.attr == "to_pandas_dtype":
            yield f"{module.path}:{node.lineno}: .to_pandas_dtype needs pandas with some versions of pyarrow"


def the_package_stands_alone(module: Module) -> Iterator[str]:
    for line, name in module.imports():
        if name.split(".")[0] in ("tests", "benchmarks", "scripts", "examples"):
            yield f"{module.path}:{line}: imports {name}, which users do not get"


Rule = Callable[[Module], Iterator[str]]
RULES: tuple[Rule, ...] = (
    imports_run_one_way,
    the_engine_is_built_upwards,
    only_spark_rooms_touch_pyspark,
    pure_rooms_have_no_clock,
    nothing_runs_foreign_code,
    nobody_opens_the_jvm,
    nothing_is_long,
    pandas_is_never_needed,
    the_package_stands_alone,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_follows_each_rule(rule):
    wrong = [line for module in modules() for line in rule(module)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_rules_read_the_whole_package():
    paths = {module.path for module in modules()}
    assert {"__init__.py", "datastream/keyed.py", "errors.py", "engine/plan.py", "spark/operator/task_functions.py"} <= paths


PLANTED = [
    (imports_run_one_way, "engine/x.py", "from panestream.spark.operator.task_functions import WindowProcessor"),
    (imports_run_one_way, "windowing/x.py", "import panestream.engine.plan"),
    (imports_run_one_way, "windowing/assigners/x.py", "from ...engine import plan"),
    (imports_run_one_way, "spark/x.py", "def f():\n    from panestream import stream"),
    (imports_run_one_way, "spark/x.py", "import panestream as pst"),
    (imports_run_one_way, "datastream/keyed.py", "from panestream.jobs.model import Job"),
    (imports_run_one_way, "spark/query.py", "def f():\n    from panestream.insight.live import Live"),
    (imports_run_one_way, "spark/savepoint/inspectable_state.py", "from panestream.insight.page import page"),
    (
        imports_run_one_way,
        "spark/savepoint/inspectable_state.py",
        "if TYPE_CHECKING:\n    from panestream.insight.page import page",
    ),
    (only_spark_rooms_touch_pyspark, "insight/page.py", "import pyspark.sql"),
    (pure_rooms_have_no_clock, "insight/page.py", "import time"),
    (imports_run_one_way, "errors.py", "from panestream.windowing.time import to_micros"),
    (imports_run_one_way, "novelty/x.py", "pass"),
    (the_engine_is_built_upwards, "engine/kernels/x.py", "from panestream.engine.storage.payload import encode"),
    (the_engine_is_built_upwards, "engine/kernels/x.py", "def f():\n    from panestream.engine.plan import Top"),
    (the_engine_is_built_upwards, "engine/storage/x.py", "from panestream.engine.plan import WindowPlan"),
    (the_engine_is_built_upwards, "engine/storage/x.py", "from panestream.engine.operators.panes.rollups import Rollups"),
    (the_engine_is_built_upwards, "engine/storage/x.py", "from panestream.engine.runtime.group_io import GroupMetrics"),
    (the_engine_is_built_upwards, "engine/runtime/x.py", "from ..operators.panes.operator import PaneSpec"),
    (the_engine_is_built_upwards, "engine/plan.py", "from panestream.engine.operators.row.spec import RowSpec"),
    (only_spark_rooms_touch_pyspark, "engine/x.py", "import pyspark.sql"),
    (only_spark_rooms_touch_pyspark, "windowing/x.py", "if TYPE_CHECKING:\n    from pyspark.sql import Row"),
    (only_spark_rooms_touch_pyspark, "engine/x.py", "def f():\n    from py4j import java_gateway"),
    (pure_rooms_have_no_clock, "engine/x.py", "import time"),
    (pure_rooms_have_no_clock, "engine/operators/x.py", "from time import monotonic"),
    (pure_rooms_have_no_clock, "windowing/x.py", "import datetime\nt = datetime.datetime.now()"),
    (pure_rooms_have_no_clock, "windowing/x.py", "from datetime import date\nt = date.today()"),
    (pure_rooms_have_no_clock, "engine/x.py", "import numpy as np\nr = np.random.default_rng()"),
    (pure_rooms_have_no_clock, "engine/x.py", "import importlib"),
    (nothing_runs_foreign_code, "jobs/x.py", "eval('1')"),
    (nothing_runs_foreign_code, "datastream/keyed.py", "exec('x = 1')"),
    (nothing_runs_foreign_code, "engine/x.py", "import pickle\npickle.loads(b'')"),
    (nothing_runs_foreign_code, "engine/x.py", "import pickle\nread = pickle.Unpickler"),
    (nothing_runs_foreign_code, "spark/x.py", "from cloudpickle import loads"),
    (nobody_opens_the_jvm, "spark/x.py", "spark._jvm.System.nanoTime()"),
    (nobody_opens_the_jvm, "spark/x.py", "n = spark.sparkContext.defaultParallelism"),
    (nobody_opens_the_jvm, "spark/x.py", "n = df.rdd.getNumPartitions()"),
    (nobody_opens_the_jvm, "spark/x.py", "j = getattr(df, '_jdf')"),
    (nothing_is_long, "engine/x.py", "x = 1\n" * 601),
    (nothing_is_long, "engine/x.py", "def f():\n" + "    x = 1\n" * 60),
    (pandas_is_never_needed, "spark/operator/dataflow.py", "import pandas as pd"),
    (pandas_is_never_needed, "spark/x.py", "def f():\n    import pandas as pd"),
    (pandas_is_never_needed, "engine/x.py", "dtype = array.type.to_pandas_dtype()"),
    (the_package_stands_alone, "testing/x.py", "from tests.conformance.runner import main"),
]


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED, ids=lambda value: getattr(value, "__name__", None))
def test_rule_finds_a_planted_violation(rule, path, text):
    assert list(rule(Module(path, text)))


INNOCENT = [
    (imports_run_one_way, "spark/x.py", "from panestream.engine.plan import WindowPlan\nfrom . import exchange"),
    (the_engine_is_built_upwards, "engine/runtime/x.py", "from panestream.engine.plan import WindowPlan"),
    (
        the_engine_is_built_upwards,
        "engine/operators/panes/x.py",
        "from panestream.engine.runtime.group_operator import GroupOperator",
    ),
    (imports_run_one_way, "spark/savepoint/inspectable_state.py", "def f():\n    from panestream.insight.page import page"),
    (only_spark_rooms_touch_pyspark, "spark/x.py", "import pyspark"),
    (pure_rooms_have_no_clock, "engine/x.py", "from datetime import timedelta\nfrom panestream.windowing import time\nnow = 1"),
    (nothing_runs_foreign_code, "engine/x.py", "import re\nre.compile('x')\nimport pickle\npickle.dumps(1)"),
    (nothing_is_long, "engine/x.py", 'def f():\n    """Long."""\n' + "    x = 1\n" * 59),
]


@pytest.mark.parametrize(("rule", "path", "text"), INNOCENT, ids=lambda value: getattr(value, "__name__", None))
def test_rule_accepts_allowed_code(rule, path, text):
    assert not list(rule(Module(path, text)))


def test_no_two_modules_import_each_other():
    assert not circles(modules())


CIRCLES = [
    ({"engine/a.py": "from panestream.engine.b import B", "engine/b.py": "from panestream.engine import a"}, 1),
    ({"engine/a.py": "import panestream.engine.b", "engine/b.py": "if TYPE_CHECKING:\n    from panestream.engine.a import A"}, 1),
    ({"a.py": "from .b import B", "b.py": "from .c import C", "c.py": "from .a import A"}, 1),
    ({"a.py": "from .b import B", "b.py": "from .c import C", "c.py": "import panestream.windowing"}, 0),
]


@pytest.mark.parametrize(("texts", "count"), CIRCLES)
def test_circle_of_imports_is_reported(texts, count):
    assert len(circles([Module(path, text) for path, text in texts.items()])) == count


@pytest.mark.parametrize("permission", [*ALLOWED_DANGERS, *ALLOWED_DOORS, *ALLOWED_IMPURITIES, *LAZY_IMPORTS], ids=":".join)
def test_each_exception_to_a_rule_is_still_needed(permission):
    path, what = permission
    assert what.split(".")[-1] in (PACKAGE / path).read_text("utf-8")


def classes_of_one_name(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the names of classes that several modules define, with the modules."""
    found: dict[str, list[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module.path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_each_class_name_is_defined_once():
    assert classes_of_one_name(modules()) == {}


def test_class_name_in_two_modules_is_reported():
    twice = [Module(path, "class Mode:\n    pass\n") for path in ("jobs/a.py", "spark/b.py")]
    assert classes_of_one_name(twice) == {"Mode": ["jobs/a.py", "spark/b.py"]}


def undocumented(names: list[str], holder: object) -> list[str]:
    """Return the public names without their own docstring. An inherited docstring does not describe the subclass."""
    return [name for name in names if not inspect.cleandoc(getattr(getattr(holder, name), "__doc__", None) or "")]


def test_every_public_name_has_a_docstring():
    import panestream

    namespaces = [panestream, *(getattr(panestream, name) for name in panestream._NAMESPACES)]
    public = {(namespace, name): getattr(namespace, name) for namespace in namespaces for name in namespace.__all__}
    # test_public_names looks at aliases and constants.
    of_type = {
        where: thing for where, thing in public.items() if get_origin(thing) is None and not isinstance(thing, (int, tuple))
    }
    assert not [name for namespace, name in of_type if undocumented([name], namespace)]
    for (_, name), thing in of_type.items():
        if not inspect.isclass(thing):
            continue
        # A property can do without a docstring. Overriding methods may inherit theirs.
        methods = [n for n, member in vars(thing).items() if not n.startswith("_") and inspect.isfunction(member)]
        assert not [f"{name}.{n}" for n in methods if not inspect.getdoc(getattr(thing, n))]


def test_missing_docstring_is_reported():
    class Holder:
        def bare(self):
            pass

    assert undocumented(["bare"], Holder) == ["bare"]


def imported_by(statement: str) -> set[str]:
    """Top-level modules that are loaded once ``statement`` has run in a fresh interpreter."""
    code = f"import sys; sys.path.insert(0, {str(SRC)!r})\n{statement}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


HEAVY = {"pandas", "matplotlib", "typer", "rich", "yaml", "psutil", "pytest", "grpc", "prometheus_client", "opentelemetry"}


def test_import_panestream_loads_no_heavy_modules():
    assert not imported_by("import panestream") & HEAVY


def test_engine_and_windowing_load_no_heavy_modules():
    # `panestream/__init__` imports Spark for users' convenience. The lower packages must work without it.
    code = (
        "import types, sys\n"
        f"package = types.ModuleType('panestream'); package.__path__ = [{str(PACKAGE)!r}]; sys.modules['panestream'] = package\n"
        "import pkgutil, importlib\n"
        "for room in ('panestream.windowing', 'panestream.engine'):\n"
        "    for found in pkgutil.walk_packages(importlib.import_module(room).__path__, room + '.'):\n"
        "        importlib.import_module(found.name)\n"
    )
    assert not imported_by(code) & (HEAVY | {"pyspark", "py4j"})


def test_heavy_import_is_reported():
    assert "yaml" in imported_by("import panestream, yaml")
