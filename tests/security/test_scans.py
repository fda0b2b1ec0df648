"""The scans for secrets and vulnerabilities run in CI, and the exceptions in their baseline were reviewed."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {
    "benchmarks/flink/cluster.py": "hashes of what is downloaded",
    "tests/spark/sinks/test_kafka_told.py": "passwords that a test makes up, to see that they are not shown",
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
