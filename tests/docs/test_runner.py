"""The runner of pages reports each kind of planted fault."""

from __future__ import annotations

import textwrap

import pages
import pytest
from commands import all_commands, markdown, wrong_in


def page(text):
    return pages.read(pages.DOCS / "planted.md", textwrap.dedent(text))


def test_blocks_of_a_page_are_one_script():
    outcome = pages.run(
        page("""\
        # Planted

        ```python
        a = 1
        ```

        Words.

        ```python
        def twice(x):
            return 2 * x
        print(twice(a))
        ```

        ```text
        2
        ```
        """)
    )
    assert (outcome.ran, outcome.compared) == (2, 1)


def test_wrong_output_is_reported_with_its_line():
    with pytest.raises(pages.PageError, match=r"planted.md:5: the page shows\n3\n\nand this was printed\n2"):
        pages.run(page("```python\nprint(2)\n```\n```text\n3\n```\n"))


def test_error_is_reported_with_its_line():
    with pytest.raises(pages.PageError, match=r"planted.md:4: ZeroDivisionError"):
        pages.run(page("# Planted\n```python\na = 0\n1 / a\n```\n"))


def test_text_block_after_a_paragraph_is_not_compared():
    outcome = pages.run(page("```python\nprint(2)\n```\nIt looks so:\n```text\n3\n```\n"))
    assert outcome.compared == 0


def test_blocks_in_containers_are_read():
    blocks = page(":::{container} side-by-side\n```python\na = 1\n```\n```sql\nSELECT 1\n```\n:::\n").blocks
    assert [(block.kind, block.line) for block in blocks] == [("python", 3), ("sql", 6)]


def test_fragment_is_parsed_but_not_run():
    assert pages.run(page("```python fragment\nnowhere.start()\n```\n")).ran == 0
    with pytest.raises(SyntaxError):
        pages.run(page("```python fragment\nnowhere.start(\n```\n"))


def test_drawing_shows_values_at_its_place_in_the_script():
    drawn = page(
        "```python\na = [1]\n```\n```{timeline} tuple(a)\n:alt: one\n```\n```python\na.append(2)\n```\n```{timeline} a, a\n```\n"
    )
    assert pages.run(drawn).drawn == [[(1,)], [[1, 2], [1, 2]]]
    with pytest.raises(pages.PageError, match=r"planted.md:2: NameError"):
        pages.run(page("```{timeline} nobody\n```\n"))


def test_front_matter_names_the_need_for_spark():
    assert page("---\npanestream: spark\n---\n# Planted\n").needs == "spark"
    assert page("# Planted\n\n---\npanestream: spark\n---\n").needs == ""


def test_each_page_starts_in_an_empty_folder():
    pages.run(page("```python\nfrom pathlib import Path\nPath('left').touch()\n```\n"))
    pages.run(page("```python\nfrom pathlib import Path\nassert not Path('left').exists()\n```\n"))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("panestream run job.toml --mode batch", []),
        ("$ panestream inspect DIR --key user=ann --most 4 | less -S", []),
        ("pip install panestream", []),
        ("panestream --help", []),
        ("panestream runs job.toml", ["there is no command 'runs'"]),
        ("panestream run job.toml \\\n  --metrics 9464", ["panestream run has no --metrics"]),
        ("FOO=1 panestream why DIR --times=5", ["panestream why has no --times"]),
    ],
)
def test_unknown_commands_are_reported(line, wrong):
    assert wrong_in(line) == wrong


def test_page_of_commands_lists_all_commands_and_options():
    from typer.testing import CliRunner

    from panestream.jobs.cli import app

    page_text = markdown()
    for command in all_commands()[1:]:
        assert f"## `{' '.join(command.path)}`" in page_text
        shown = CliRunner().invoke(app, [*command.path[1:], "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
        for each in command.given:
            assert all(name in shown or name.lower() in shown for name in each.names), each
