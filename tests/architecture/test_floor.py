"""The oldest versions allowed: read from pyproject.toml, installed by `make test-floor`, and listed in docs/reference/versions.md."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lowest():
    spec = importlib.util.spec_from_file_location("lowest", ROOT / "scripts" / "lowest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requirement", "oldest"),
    [
        ("pyspark>=4.1,<4.4", "pyspark==4.1"),
        ("tomli>=2; python_version < '3.11'", "tomli==2; python_version < '3.11'"),
        ("grpcio-status >= 1.76", "grpcio-status==1.76"),
        ("numpy", "numpy"),
    ],
)
def test_lower_bound_of_a_requirement_becomes_its_oldest_version(lowest, requirement, oldest):
    assert lowest.lowest(requirement) == oldest


def test_page_of_versions_lists_the_oldest_versions(lowest):
    wanted = lowest.requirements()
    assert not [each for each in wanted if each.startswith("pandas")]
    oldest = dict(each.split("==") for each in wanted if re.fullmatch(r"[\w-]+==[\w.]+", each))
    page = " ".join((ROOT / "docs" / "reference" / "versions.md").read_text("utf-8").split())
    for text in (
        f"PySpark {oldest['pyspark']}.0",
        f"pyarrow {oldest['pyarrow']}",
        f"protobuf {oldest['protobuf']}",
        "Python 3.10",
    ):
        assert text in page, text
    assert 'requires-python = ">=3.10"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_floor_is_skipped_with_a_reason_if_no_python_fits(tmp_path):
    done = subprocess.run(
        [ROOT / "scripts" / "make_floor.sh", tmp_path / "venv"],
        env={"PATH": os.environ["PATH"], "FLOOR_PYTHON": "/nowhere/python3.10"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == ""
    assert done.stderr == "make test-floor: skipped: there is no Python 3.10 to 3.13 here\n"
