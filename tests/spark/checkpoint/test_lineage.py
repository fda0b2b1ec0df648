"""The heritage of a query from the queries before it. Without Spark."""

import json
import re

import pytest

from panestream.errors import CheckpointError
from panestream.spark.checkpoint.lineage import (
    Lineage,
    check_not_continued,
    check_not_succeeded,
    check_only_successor,
    is_writer_of,
    lineage_after,
    lineage_of_saved,
    successors,
)


def entry(query="q", after=-1, places=("file:/out",), succession=None, **more):
    return {"query": query, "after": after, "places": list(places), "born": succession and {"succession": succession}, **more}


def test_lineage_of_a_query_without_predecessors():
    runs = [entry(after=-1, places=[]), entry(after=-1), entry(after=5, places=["file:/later"])]
    assert lineage_after(runs, "old", 5) == Lineage(("q",), 6, ("file:/out",), "old", 5)
    assert lineage_after(runs, "old", 6).places == ("file:/later", "file:/out")


def test_lineage_of_a_query_with_predecessors():
    first = lineage_after([entry()], "old", 5)
    saved = json.loads(json.dumps(first.as_saved()))
    assert lineage_of_saved(saved) == first
    identity = first.new_identity()
    second = lineage_after([entry(identity, places=["file:/other"], succession=saved)], "new", 2)
    assert second == Lineage(("q", identity), 9, ("file:/other", "file:/out"), "new", 2)
    assert second.root == "q"
    assert all(is_writer_of(f"{query}/main", "q/main") for query in (*second.queries, second.new_identity()))
    assert not is_writer_of(f"{identity}/late", "q/main")
    assert lineage_of_saved(None) is None


def test_old_query_that_continued_is_not_succeeded():
    old = lineage_after([entry()], "old", 5)
    check_not_continued(old, 5, ["file:/out"])
    with pytest.raises(CheckpointError, match=re.escape("went on in old up to micro-batch 6 and wrote to file:/out")):
        check_not_continued(old, 6, ["file:/out"])


def test_old_query_with_a_successor_is_not_started_again():
    told = entry(successor="new")
    check_not_succeeded([entry()], "old", lambda _: 3)
    check_not_succeeded([entry(), told], "old", lambda _: -1)
    with pytest.raises(
        CheckpointError, match=r"of the checkpoint old has a successor .* with the checkpoint new, .* [Dd]elete new "
    ):
        check_not_succeeded([entry(), told], "old", lambda _: 0)
    # A later successor was recorded, and never committed.
    begun = {"new": 0, "newer": -1}
    with pytest.raises(CheckpointError, match="with the checkpoint new, "):
        check_not_succeeded([entry(), told, entry(successor="newer")], "old", begun.__getitem__)
    # The old query was started again since, so the successor was deleted, whatever its folder contains now.
    check_not_succeeded([entry(), told, entry()], "old", begun.__getitem__)


def test_second_successor_is_refused_if_the_first_wrote_to_the_same_folders():
    old = lineage_after([entry(places=["file:/out", "file:/late"])], "old", 5)
    told = [entry(), entry(successor="gone"), entry(), entry(successor="a"), entry(successor="b"), entry(successor="a")]
    assert successors(told) == ["a", "b"]
    others = {"a": [entry(places=[]), entry(places=["file:/out"])]}
    with pytest.raises(
        CheckpointError, match=r"continued from old already, with the checkpoint a, and wrote to file:/out: .*[Dd]elete a "
    ):
        check_only_successor(old, others, ["file:/late", "file:/out"], lambda _: 0)
    check_only_successor(old, others, ["file:/late"], lambda _: 0)
    check_only_successor(old, others, ["file:/out"], lambda _: -1)
