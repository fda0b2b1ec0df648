"""The README is true: its example prints its table, the library draws its picture, and its links work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.readme_example import PICTURE, picture, write_clicks
from scripts.spark_versions import LINES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.spark
def test_example_of_readme_prints_its_table(tmp_path):
    """Run the example in another process, because it builds its own session."""
    write_clicks(tmp_path / "clicks")
    (example,), (table,) = blocks("python"), blocks("text")
    late = "\nprint([row.price for row in spark.read.parquet('out/late').collect()])"
    done = subprocess.run(
        [sys.executable, "-c", example + late],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == f"{table}\n[9.0]"


def test_home_page_shows_the_example_of_the_readme():
    home = (ROOT / "docs" / "index.md").read_text("utf-8")
    (example,), (table,) = blocks("python"), blocks("text")
    assert f"```python fragment\n{example}```" in home
    assert f"```text\n{table}```" in home


def test_picture_of_readme_shows_what_the_library_draws():
    """Compare only the words and numbers in the picture. Its lines depend on the version of matplotlib."""
    kept, drawn = (re.findall(r">([^<>\n]+)<", text) for text in (PICTURE.read_text("utf-8"), picture()))
    assert kept == drawn


def test_badges_show_what_the_package_declares():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    versions = re.findall(r"Python :: (3\.\d+)", project)
    assert f"python-{versions[0]}_to_{versions[-1]}-" in README
    assert f"spark-{min(LINES)}_to_{max(LINES)}-" in README
    assert 'license = "Apache-2.0"' in project
    assert "Development Status :: 3 - Alpha" in project


def test_readme_stays_short():
    assert 900 <= len(README.split()) <= 1100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_lead_to_existing_files(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    assert not [page.name for page in folder.glob("[0-9]*.md") if page.name not in listed]
