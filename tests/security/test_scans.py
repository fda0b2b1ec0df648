"""The scans for secrets and vulnerabilities run in CI, and the exceptions in their baseline were reviewed."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = "a password that a test makes up, to see that it is not shown"
LOCAL = "the password of a server that a test starts and stops on this machine"
EXAMPLE = "an example that shows where a password is written"
KNOWN = {
    "benchmarks/flink/cluster.py": "hashes of what is downloaded",
    "docs/how-to/serving.md": EXAMPLE,
    "docs/reference/job-files.md": EXAMPLE,
    "src/panestream/spark/open_lineage/datasets.py": EXAMPLE,
    "src/panestream/spark/sinks/serving.py": EXAMPLE,
    "tests/connectors/serving/servers.py": LOCAL,
    "tests/connectors/serving/serving_targets.py": LOCAL,
    "tests/connectors/serving/test_serving_stores.py": LOCAL,
    "tests/connectors/serving/writer.py": LOCAL,
    "tests/jobs/test_job_files.py": MADE_UP,
    "tests/recovery/crashes/places.py": LOCAL,
    "tests/spark/open_lineage/test_datasets.py": MADE_UP,
    "tests/spark/open_lineage/test_emitter.py": MADE_UP,
    "tests/spark/sinks/test_kafka_told.py": MADE_UP,
    "tests/spark/sinks/test_serving.py": MADE_UP,
}
"""Files with findings in the baseline, and the reason why each finding is harmless."""


def test_baseline_contains_only_reviewed_findings():
    baseline = json.loads((ROOT / ".secrets.baseline").read_text("utf-8"))
    assert set(baseline["results"]) == set(KNOWN)
    assert len(baseline["plugins_used"]) > 20
    # A filter that skips files of the project would be a gap.
    assert not [each for each in baseline["filters_used"] if "regex" in each["path"] and "pattern" in each]


def test_both_scans_are_required_in_ci():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    asked = {step.get("run"): step.get("env") for step in jobs["security"]["steps"]}
    assert {asked["make secrets"]["PANESTREAM_AUDIT"], asked["make sbom"]["PANESTREAM_AUDIT"]} == {"required"}
    assert "make secrets" in (ROOT / ".ci" / "run").read_text("utf-8")
