"""What a query has from those before it: told without Spark."""

import json
import re

import pytest

from panestream.errors import CheckpointError
from panestream.spark.succession import (
    Succession,
    check_not_gone_on,
    check_not_succeeded,
    is_of,
    of_saved,
    succession_after,
)


def entry(query="q", after=-1, places=("file:/out",), succession=None, **more):
    return {"query": query, "after": after, "places": list(places), "born": succession and {"succession": succession}, **more}


def test_of_a_query_that_began_by_itself():
    runs = [entry(after=-1, places=[]), entry(after=-1), entry(after=5, places=["file:/later"])]
    assert succession_after(runs, "old", 5) == Succession(("q",), 6, ("file:/out",), "old", 5)
    assert succession_after(runs, "old", 6).places == ("file:/later", "file:/out")


def test_of_one_that_succeeded_others():
    first = succession_after([entry()], "old", 5)
    saved = json.loads(json.dumps(first.as_saved()))
    assert of_saved(saved) == first
    identity = first.new_identity()
    second = succession_after([entry(identity, places=["file:/other"], succession=saved)], "new", 2)
    assert second == Succession(("q", identity), 9, ("file:/other", "file:/out"), "new", 2)
    assert second.root == "q"
    assert all(is_of(f"{query}/main", "q/main") for query in (*second.queries, second.new_identity()))
    assert not is_of(f"{identity}/late", "q/main")
    assert of_saved(None) is None


def test_the_old_one_went_on():
    old = succession_after([entry()], "old", 5)
    check_not_gone_on(old, 5, ["file:/out"])
    with pytest.raises(CheckpointError, match=re.escape("went on in old up to micro-batch 6 and wrote to file:/out")):
        check_not_gone_on(old, 6, ["file:/out"])


def test_the_old_one_is_not_started_again():
    told = entry(successor="new")
    check_not_succeeded(entry(), "old", lambda _: 3)
    check_not_succeeded(told, "old", lambda _: -1)
    with pytest.raises(CheckpointError, match=r"of the checkpoint old went on .* with the checkpoint new, .* delete new;"):
        check_not_succeeded(told, "old", lambda _: 0)
