"""An aggregate takes two files. A toy aggregate is registered, planned, explained and run, built in or as a separate package."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import random
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.registry import Implementation, implementation_of, implements
from panestream.engine.explain import explain_plan
from panestream.engine.operators.counts import CountSpec
from panestream.engine.operators.panes.operator import PaneSpec
from panestream.engine.operators.sessions.operator import SessionSpec
from panestream.engine.plan import WindowQuery
from panestream.errors import InvalidPlanError
from panestream.windowing import aggregates as agg
from panestream.windowing.aggregates.base import OfOne
from panestream.windowing.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from panestream.windowing.assigners.global_windows import CountWindows
from tests.comparison import harness
from tests.engine.aggregates import toy

PACKAGE = "toy_of_a_test"
WINDOWS = {
    "tumbling": (TumblingEventTimeWindows(20), PaneSpec),
    "sliding": (SlidingEventTimeWindows(30, 10), PaneSpec),
    "sessions": (EventTimeSessionWindows(10), SessionSpec),
}


@pytest.fixture(scope="module")
def toy_package(tmp_path_factory):
    """Import a separate package with the toy aggregate."""
    folder = tmp_path_factory.mktemp("toy_package")
    toy.package(folder, PACKAGE)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(folder))


def query(toy_package, windowing):
    return harness.Query(windowing, (toy_package.spread("v").alias("r"), agg.max("v").alias("high"), agg.min("v").alias("low")))


def streams(seed):
    rng = random.Random(seed)
    return [*harness.random_stream(rng, 20), harness.MicroBatch([], end=True)]


def check_results(emitted):
    """Compare the results with max and min, which other code computes. Return the number of results."""
    values = [values for output in emitted for _, values in output.fired]
    for spread, high, low in values:
        assert spread == (None if high is None else float(high - low))
    return len(values)


@pytest.mark.full
@pytest.mark.parametrize("name", WINDOWS)
def test_aggregate_of_another_package_runs_on_columns_and_row_by_row(toy_package, name):
    assigner, kind = WINDOWS[name]
    toy_query = query(toy_package, WindowQuery(assigner, allowed_lateness=15))
    assert isinstance(toy_query.columnar().operator, kind)
    rows = 0
    for seed in range(12):
        batches = streams(seed)
        rows += check_results(harness.run(toy_query.columnar(), batches))
        check_results(harness.run(toy_query.row(), batches))
        if kind is PaneSpec:
            harness.compare(toy_query, batches, seed)
            harness.compare_batch(toy_query, batches, seed)
    assert rows > 50


def test_aggregate_of_another_package_runs_in_count_windows(toy_package):
    toy_query = query(toy_package, WindowQuery(*CountWindows(2).parts))
    assert isinstance(toy_query.columnar().operator, CountSpec)
    assert sum(check_results(harness.run(toy_query.columnar(), streams(seed))) for seed in range(12)) > 100


def test_explain_shows_an_aggregate_of_another_package(toy_package):
    plan = query(toy_package, WindowQuery(TumblingEventTimeWindows(20))).columnar()
    explained = explain_plan(plan, streaming=True, chosen=None)
    assert "agg.spread('v').alias('r')" in explained
    assert "the largest less the smallest of the panes' values" in explained


def fresh_python(code, *paths, **more):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=120, **more)


@pytest.mark.parametrize("way", ["columnar", "row"])
def test_unpickling_a_plan_imports_the_package_of_its_aggregate(toy_package, tmp_path, way):
    plan = getattr(query(toy_package, WindowQuery(SlidingEventTimeWindows(30, 10))), way)()
    (tmp_path / "plan").write_bytes(pickle.dumps((plan, streams(1))))
    code = (
        "import pickle, sys\n"
        "plan, batches = pickle.load(open(sys.stdin.readline(), 'rb'))\n"
        "from tests.comparison import harness\n"
        "print([one.fired for one in harness.run(plan, batches)])\n"
    )
    paths = (Path(toy_package.__path__[0]).parent, toy.ROOT / "src", toy.ROOT)
    printed = fresh_python(code, *paths, input=str(tmp_path / "plan")).stdout.strip()
    assert printed == str([output.fired for output in harness.run(plan, streams(1))])


def test_two_more_files_make_an_aggregate_built_in_also_in_a_zip(tmp_path):
    toy.built_in(tmp_path)
    archive = tmp_path / "panestream.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for file in sorted((tmp_path / "panestream").rglob("*.py")):
            target.write(file, file.relative_to(tmp_path))
    code = (
        "import pyarrow as pa\n"
        "from panestream import agg\n"
        "from panestream.engine.aggregates import Aggregation\n"
        "from panestream.engine.operators.row.operator import DeclaredFunction\n"
        "from panestream.jobs.aggregates import FUNCTIONS\n"
        "assert '.zip' in agg.__file__ and agg.spread is not None and 'Spread' in agg.__all__\n"
        "print(Aggregation.build([agg.spread('v')], {'v': pa.int64()}, pa.schema([])).output_schema.names)\n"
        "function = DeclaredFunction([agg.spread('v')], {'v': pa.int64()})\n"
        "state = function.add((9, 0), function.add((2, 0), function.create_accumulator()))\n"
        "print(function.get_result(state), list(FUNCTIONS['spread']))\n"
    )
    assert fresh_python(code, archive).stdout.splitlines() == ["['spread(v)']", "(7.0,) ['column']"]


def test_every_aggregate_has_an_engine_file_of_the_same_name():
    recipes = [
        aggregate
        for name in agg.__all__
        if inspect.isclass(aggregate := getattr(agg, name)) and issubclass(aggregate, agg.Aggregate)
    ]
    assert len(recipes) > 20
    for recipe in recipes:
        if recipe is agg.Aggregate:
            continue
        implementation = implementation_of(recipe.__new__(recipe))
        assert type(implementation).__module__.split(".")[-1] == recipe.__module__.split(".")[-1]


@dataclass(frozen=True, slots=True, repr=False)
class Lonely(OfOne):
    function = "lonely"


def test_aggregate_without_an_implementation_is_an_error():
    with pytest.raises(InvalidPlanError, match=r"nothing computes agg.lonely\('v'\).*@implements\(Lonely\)"):
        Aggregation.build([Lonely("v")], {"v": pa.int64()}, pa.schema([]))


def test_second_implementation_of_an_aggregate_is_refused():
    with pytest.raises(InvalidPlanError, match=r"Mine cannot implement .*\.Sum, which .*SumImplementation does already"):

        @implements(agg.Sum)
        class Mine(Implementation[agg.Sum]):
            def plan(self, recipe, planner):
                """Never called."""

    assert type(implementation_of(agg.sum("x"))).__name__ == "SumImplementation"
