"""The workflows are well made, and what looks into a wheel finds what is wrong with it."""

from __future__ import annotations

import importlib.util
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BRANCHES = {"pypa/gh-action-pypi-publish@release/v1"}
"""Actions whose authors release on a branch."""


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_pinned_and_may_no_more_than_it_must(path):
    text = path.read_text("utf-8")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads `on` as true.
    assert set(workflow) <= {"name", True, "permissions", "concurrency", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert set(job) <= {"needs", "runs-on", "timeout-minutes", "permissions", "environment", "steps"}, name
        assert job["timeout-minutes"] <= (300 if path.stem == "nightly" else 75), name
        assert set([job["needs"]] if "needs" in job else []) <= set(workflow["jobs"]), name
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step), step
        assert set(step) <= {"name", "uses", "with", "env", "run"}, step
        # What comes from outside never stands in a shell line.
        assert "${{" not in step.get("run", ""), step
        used = step.get("uses")
        assert used is None or used in BRANCHES or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), used
    for line in text.splitlines():
        if "uses:" in line and not any(branch in line for branch in BRANCHES):
            assert re.search(r"# v\d+\.\d+\.\d+$", line), f"no version beside the hash: {line}"
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for target in re.findall(r"run: make (\S+)", text):
        assert target in made, target
    assert "run: .ci/run" not in text or (ROOT / ".ci" / "run").is_file()


def test_every_change_and_every_release_tries_the_wheel_and_may_not_skip_it():
    for path in (path for path in WORKFLOWS if path.stem != "nightly"):
        tried = [step for step in steps(yaml.safe_load(path.read_text("utf-8"))) if step.get("run") == "make test-package"]
        assert [step["env"] for step in tried] == [{"PANESTREAM_AUDIT": "required"}], path.name


def test_only_who_signs_or_publishes_may_ask_for_a_token():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    asking = {name for name, job in jobs.items() if job.get("permissions", {}).get("id-token") == "write"}
    assert asking == {"attest", "publish"}
    assert jobs["publish"]["needs"] == "attest"
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")


@pytest.fixture(scope="module")
def package():
    spec = importlib.util.spec_from_file_location("package", ROOT / "scripts" / "package.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


METADATA = "License-Expression: Apache-2.0\nRequires-Python: >=3.10\nDescription-Content-Type: text/markdown\n"


def wheel(folder: Path, metadata: str = METADATA, without: str = "", also: str = "") -> Path:
    made = folder / "panestream-0.1.0-py3-none-any.whl"
    home = ROOT / "src"
    files = [file for file in (home / "panestream").rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    names = {file.relative_to(home).as_posix(): file.read_bytes() for file in files}
    without_demo = (file for file in (ROOT / "examples").rglob("*") if "hot_items" not in file.parts)
    shown = [file for file in without_demo if file.is_file() and "__pycache__" not in file.parts]
    names |= {f"panestream/{file.relative_to(ROOT).as_posix()}": file.read_bytes() for file in shown}
    info = "panestream-0.1.0.dist-info"
    names |= {f"{info}/METADATA": metadata.encode(), f"{info}/licenses/LICENSE": b""}
    names |= {f"{info}/entry_points.txt": b"[console_scripts]\npanestream = panestream.jobs.cli:app\n"}
    names |= {also: b""} if also else {}
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            if name != without:
                archive.writestr(name, content)
    return made


def test_a_good_wheel(package, tmp_path):
    package.check_wheel(wheel(tmp_path))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"without": "panestream/py.typed"}, "lacks: panestream/py.typed"),
        ({"without": "panestream/examples/visits.toml"}, "lacks: panestream/examples/visits.toml"),
        ({"without": "panestream/spark/compat.py"}, "lacks: panestream/spark/compat.py"),
        ({"also": "tests/conftest.py"}, "should not have: tests/conftest.py"),
        ({"also": "panestream/examples/hot_items/demo.py"}, "should not have: panestream/examples/hot_items/demo.py"),
        ({"also": "panestream/clicks.parquet"}, "should not have: panestream/clicks.parquet"),
        ({"without": "panestream-0.1.0.dist-info/licenses/LICENSE"}, "LICENSE, not one"),
        ({"metadata": METADATA + "Requires-Dist: pyspark>=4.1\n"}, "requires pyspark"),
        ({"metadata": "Requires-Python: >=3.10\n"}, "no 'License-Expression"),
    ],
)
def test_a_wheel_that_is_wrong(package, tmp_path, how, said):
    with pytest.raises(package.PackageError, match=re.escape(said)):
        package.check_wheel(wheel(tmp_path, **how))


def test_an_sdist_with_data_in_it_or_without_an_example(package, tmp_path):
    made = tmp_path / "panestream-0.1.0.tar.gz"
    (tmp_path / "x").write_text("")
    wanted = [
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "PKG-INFO",
        "src/panestream/py.typed",
        "tests/conftest.py",
        *package.examples(),
    ]
    assert "examples/pipelines/transformations/clicks.py" in wanted
    for surplus in ([], ["tests/data/rides.parquet"]):
        with tarfile.open(made, "w:gz") as archive:
            for name in [*wanted, *surplus]:
                archive.add(tmp_path / "x", f"panestream-0.1.0/{name}")
        if surplus:
            with pytest.raises(package.PackageError, match=r"should not have: tests/data/rides\.parquet"):
                package.check_sdist(made)
        else:
            package.check_sdist(made)
    with tarfile.open(made, "w:gz") as archive:
        for name in set(wanted) - {"examples/visits.toml"}:
            archive.add(tmp_path / "x", f"panestream-0.1.0/{name}")
    with pytest.raises(package.PackageError, match=r"lacks: examples/visits\.toml"):
        package.check_sdist(made)
