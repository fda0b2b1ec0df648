"""Who owns a sink's folder, where the owner goes on while another query still claims it."""

from __future__ import annotations

import shutil

from panestream.spark.sinks import claims
from tests.spark.local_files import LocalFiles, leave_marker


def test_a_query_whose_claim_the_owner_has_swept_does_not_replace_the_owners_marker(tmp_path, monkeypatch):
    """The owner's first micro-batch deletes what lies among the attempts: the other finds no local claim of its own."""
    spark = LocalFiles()

    def overtaken(spark, path, marker):
        leave_marker(spark, path, marker)
        monkeypatch.setattr(claims, "write_marker", leave_marker)
        claims.claim(spark, str(tmp_path), "owner", {"owner"})
        shutil.rmtree(tmp_path / claims.ATTEMPTS)

    monkeypatch.setattr(claims, "write_marker", overtaken)
    found = claims.claim(spark, str(tmp_path), "late", {"late"})
    assert [one["query"] for one in found.values()] == ["owner"]
    assert claims.owners(spark, str(tmp_path)) == found
