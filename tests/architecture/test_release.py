"""The CI workflows are safe, and the check of wheels and source distributions finds faults."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from scripts.spark_versions import LINES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITHUB = ROOT / ".github"
MAY = {
    ("codeql", "security-events"): "it uploads what it found",
    ("codeql", "actions"): "private repositories need it, to read",
    ("docs", "id-token"): "GitHub Pages checks which workflow publishes",
    ("docs", "pages"): "it publishes the site",
    ("release", "attestations"): "it signs the files",
    ("release", "id-token"): "PyPI and the signature trust the workflow instead of a password",
    ("scorecard", "id-token"): "it publishes the result under this repository's name",
    ("scorecard", "security-events"): "it uploads what it found",
}
"""The permissions of a workflow's job in addition to reading the repository, with the reason."""


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_pins_its_actions_and_has_minimal_permissions(path):
    text = path.read_text("utf-8")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads `on` as true.
    assert set(workflow) <= {"name", True, "permissions", "concurrency", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert set(job) <= {"needs", "runs-on", "timeout-minutes", "permissions", "environment", "strategy", "steps"}, name
        assert all(right == "contents" or (path.stem, right) in MAY for right in job.get("permissions", {})), name
        assert job["timeout-minutes"] <= (300 if path.stem == "nightly" else 75), name
        assert set([job["needs"]] if "needs" in job else []) <= set(workflow["jobs"]), name
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step), step
        assert set(step) <= {"id", "name", "uses", "with", "env", "run"}, step
        # An expression with outside input must not be part of a shell command.
        assert "${{" not in step.get("run", ""), step
        used = step.get("uses")
        assert used is None or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), used
    for line in text.splitlines():
        if "uses:" in line:
            assert re.search(r"# v\d+\.\d+\.\d+$", line), f"no version beside the hash: {line}"
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for target in re.findall(r"run: make (\S+)", text):
        assert target in made, target
    assert "run: .ci/run" not in text or (ROOT / ".ci" / "run").is_file()


def test_every_change_and_release_must_test_the_package():
    for path in (path for path in WORKFLOWS if path.stem in ("ci", "release")):
        tried = [step for step in steps(yaml.safe_load(path.read_text("utf-8"))) if step.get("run") == "make test-package"]
        assert [step["env"] for step in tried] == [{"PANESTREAM_AUDIT": "required"}], path.name


def test_only_attest_and_publish_jobs_may_write_id_tokens():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    asking = {name for name, job in jobs.items() if job.get("permissions", {}).get("id-token") == "write"}
    assert asking == {"attest", "publish"}
    assert jobs["publish"]["needs"] == "attest"
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")


def test_checkouts_do_not_keep_their_token():
    for path in WORKFLOWS:
        for step in steps(yaml.safe_load(path.read_text("utf-8"))):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, path.name


def test_ci_runs_each_spark_line_with_its_first_python():
    jobs = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    included = {each["spark"]: each["python"] for each in jobs["versions"]["strategy"]["matrix"]["include"]}
    assert included == {line: made.pythons[0] for line, made in LINES.items()}


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem)
def test_issue_form_has_a_required_field(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "labels", "body"} == set(form)
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in asked}) == len(asked)
    assert any(field.get("validations", {}).get("required") for field in asked)
    for field in asked:
        if field["attributes"].get("render") == "python":
            ast.parse(field["attributes"].get("value", ""))


def test_dependabot_updates_every_kind_of_pinned_dependency():
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text("utf-8"))["updates"]
    assert {each["package-ecosystem"] for each in updates} == {"github-actions", "pip", "docker"}
    assert all((each["directory"], each["cooldown"]["default-days"]) == ("/", 7) for each in updates)


def test_code_owners_are_listed_for_existing_files():
    lines = [line.split() for line in (GITHUB / "CODEOWNERS").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert lines[0][0] == "*"
    for pattern, *owners in lines:
        assert owners
        assert all(owner.startswith("@") for owner in owners)
        assert pattern == "*" or (ROOT / pattern.lstrip("/")).exists(), pattern


def test_image_copies_existing_files_of_its_build_context():
    image, sent = ((ROOT / name).read_text("utf-8") for name in ("Dockerfile", ".dockerignore"))
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", image, re.MULTILINE) for word in line.split()[:-1]]
    assert "src" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name.split('/')[0]}\n" in sent, name
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert f" AS {container['build']['target']}\n" in image
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"


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
    without_demo = (file for file in (ROOT / "examples").rglob("*") if not {"demos", "hot_items"} & {*file.parts})
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


def test_complete_wheel_passes_the_check(package, tmp_path):
    package.check_wheel(wheel(tmp_path))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"without": "panestream/py.typed"}, "lacks: panestream/py.typed"),
        ({"without": "panestream/examples/visits.toml"}, "lacks: panestream/examples/visits.toml"),
        ({"without": "panestream/spark/compat.py"}, "lacks: panestream/spark/compat.py"),
        ({"also": "tests/conftest.py"}, "should not have: tests/conftest.py"),
        ({"also": "panestream/examples/hot_items/demo.py"}, "should not have: panestream/examples/hot_items/demo.py"),
        ({"also": "panestream/examples/demos/kill_it.py"}, "should not have: panestream/examples/demos/kill_it.py"),
        ({"also": "panestream/clicks.parquet"}, "should not have: panestream/clicks.parquet"),
        ({"without": "panestream-0.1.0.dist-info/licenses/LICENSE"}, "LICENSE, not one"),
        ({"metadata": METADATA + "Requires-Dist: pyspark>=4.1\n"}, "requires pyspark"),
        ({"metadata": "Requires-Python: >=3.10\n"}, "no 'License-Expression"),
    ],
)
def test_faulty_wheel_is_refused(package, tmp_path, how, said):
    with pytest.raises(package.PackageError, match=re.escape(said)):
        package.check_wheel(wheel(tmp_path, **how))


def test_sdist_with_data_or_without_examples_is_refused(package, tmp_path):
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


def test_conda_recipe_has_the_dependencies_of_the_package(package, tmp_path):
    sdist = tmp_path / "panestream-0.3.1.tar.gz"
    sdist.write_bytes(b"an sdist")
    recipe = yaml.safe_load(package.filled_recipe(package.RECIPE.read_text("utf-8"), sdist))
    assert recipe["context"]["version"] == "0.3.1"
    assert recipe["source"]["sha256"] == hashlib.sha256(b"an sdist").hexdigest()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert {each.replace(" ", "") for each in recipe["requirements"]["run"][1:]} == set(project["project"]["dependencies"])
    assert recipe["build"]["python"]["entry_points"] == [f"panestream = {project['project']['scripts']['panestream']}"]
    assert f">={recipe['context']['python_min']}" == project["project"]["requires-python"]
    assert recipe["about"]["summary"] == project["project"]["description"]
    built = package.RECIPE.read_text("utf-8")
    assert re.search(r'version: "(.*)"', built)[1] == project["project"]["version"]


@pytest.mark.full
def test_pip_installs_from_the_index_and_checks_the_hash(package, tmp_path):
    made, info = tmp_path / "panestream-0.1.0-py3-none-any.whl", "panestream-0.1.0.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.4\nName: panestream\nVersion: 0.1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    package.write_index(tmp_path / "index", [made])
    file = tmp_path / "index" / "simple" / "panestream" / made.name
    with package.served(tmp_path / "index") as address:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--isolated",
            "--disable-pip-version-check",
            "download",
            "--no-deps",
            "--no-cache-dir",
        ]
        command = [*pip, "--index-url", address, "panestream==0.1.0", "--dest"]
        assert subprocess.run([*command, tmp_path / "first"], capture_output=True, check=False).returncode == 0
        file.write_bytes(file.read_bytes() + b"x")
        refused = subprocess.run([*command, tmp_path / "second"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr
