"""Errors name the function and the variable that cannot be sent to Spark's workers. Without Spark's JVM."""

from __future__ import annotations

from functools import partial
from threading import Lock

import pytest
from pyspark.errors import PySparkRuntimeError

from panestream.errors import InvalidPlanError
from panestream.spark.sendable import check_sendable

LINES = "Create it inside the function, or in a module that the workers import"


def refusal(recipe):
    with pytest.raises(InvalidPlanError) as refused:
        check_sendable(recipe)
    return str(refused.value).replace(f"{__file__}, ", "")


def with_lock():
    lock = Lock()

    def locked(rows):
        with lock:
            return rows

    return locked


class Scorer:
    def __init__(self, client):
        self.client = client

    def score(self, rows):
        return rows


class Slotted:
    __slots__ = ("__weakref__", "client", "unset")

    def __init__(self, client):
        self.client = client


def test_recipe_that_can_be_pickled_passes():
    check_sendable({"f": with_lock, "g": partial(max, 1), "h": [lambda rows: rows, Scorer(3).score]})


def test_variable_of_enclosing_function_is_named():
    line = with_lock().__code__.co_firstlineno
    assert refusal({"plan": [with_lock()]}) == (
        f"the function 'with_lock.<locals>.locked' (line {line}) cannot be sent to Spark's workers: its variable 'lock' is a _thread.lock, which "
        f"cannot be pickled. {LINES}"
    )


@pytest.mark.parametrize("wrap", [lambda f: partial(f, 1), lambda f: (f,), lambda f: lambda rows: f([*rows])])
def test_variable_is_named_through_wrappers(wrap):
    assert "with_lock.<locals>.locked' (line" in refusal(wrap(with_lock()))


def test_global_variable_in_an_inner_function_is_named():
    found = {}
    exec("from threading import Lock\nLOCK = Lock()\nf = lambda rows: [LOCK for _ in (lambda: LOCK,)]", found)
    assert "the function '<lambda>' (<string>, line 3) cannot be sent to Spark's workers: its variable 'LOCK' is" in refusal(
        found["f"]
    )


def test_default_value_is_named():
    def by_position(rows, lock=Lock()):  # noqa: B008
        return rows, lock

    def by_name(rows, *, lock=Lock()):  # noqa: B008
        return rows, lock

    assert "by_position' (line" in refusal(by_position)
    assert "its variable 'lock' is a _thread.lock" in refusal(by_position)
    assert "its variable 'lock' is a _thread.lock" in refusal(by_name)


@pytest.mark.parametrize("kind", [Scorer, Slotted])
def test_attribute_of_an_object_is_named(kind):
    said = f"the object of the class {kind.__qualname__!r} cannot be sent to Spark's workers: its attribute 'client' is a _thread.lock"
    assert refusal(kind(Lock())).startswith(said)
    assert refusal([kind({"of": [Lock()]})]).startswith(said)


def test_object_of_a_library_is_named_as_a_whole():
    scorer = Scorer(Lock())
    assert "its variable 'scorer' is a tests.spark.test_sendable.Scorer, which" in refusal(lambda: scorer)


def test_method_is_refused_by_the_attribute_of_its_object():
    assert refusal(Scorer(Lock()).score).startswith("the object of the class 'Scorer' cannot be sent")


def test_attribute_of_a_class_of_a_script_is_named():
    kind = type("Shared", (), {"lock": Lock(), "__module__": "__main__"})
    for recipe in (kind, kind()):
        assert refusal(recipe).startswith("the class 'Shared' cannot be sent to Spark's workers: its attribute 'lock' is a")


def test_object_without_a_variable_is_refused_by_its_type():
    assert refusal(Lock()).startswith("the query cannot be sent to Spark's workers: it holds a _thread.lock, which")


def test_objects_that_refer_to_each_other_are_followed_once():
    first, second = {}, {}
    first["second"], second["first"], second["lock"] = second, first, Lock()
    assert "it holds a _thread.lock" in refusal(first)


def test_empty_closure_cell_is_skipped():
    def outer():
        def inner(rows):
            return later, lock

        lock = Lock()
        if rows_are_late := False:
            later = rows_are_late
        return inner

    assert "its variable 'lock' is" in refusal(outer())


def test_object_of_spark_is_refused_with_a_specific_way_out():
    class OnDriver:
        __module__ = "pyspark.sql"

        def __reduce__(self):
            raise PySparkRuntimeError("[CONTEXT_ONLY_VALID_ON_DRIVER] ...")

    frame = OnDriver()
    assert refusal(lambda rows: frame).endswith(
        "its variable 'frame' is a pyspark.sql.test_object_of_spark_is_refused_with_a_specific_way_out.<locals>.OnDriver, which cannot "
        "be pickled. Spark's objects exist on the driver only: collect what the function needs before the windows"
    )
