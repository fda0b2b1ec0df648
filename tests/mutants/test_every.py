"""The command that tries every fault of a file finds all faults and reports survivors."""

from __future__ import annotations

import pytest

from tests.mutants.every import faults_in, main


def test_faults_of_a_file_class_or_function_can_be_selected():
    everything = faults_in("windowing/triggers/count.py")
    own = faults_in("windowing/triggers/count.py:CountTrigger")
    assert {fault.function.partition(".")[0] for fault in own} == {"CountTrigger"}
    assert set(own) < set(everything) or own == everything
    (name, *_) = sorted({fault.function for fault in own})
    assert {fault.function for fault in faults_in(f"windowing/triggers/count.py:{name}")} == {name}
    with pytest.raises(LookupError, match=r"nothing can be planted in .*:Nobody"):
        faults_in("windowing/triggers/count.py:Nobody")


@pytest.mark.full
def test_surviving_faults_are_reported_with_their_lines(capsys):
    assert main(["windowing/triggers/never.py", "--tests", "tests/windowing/triggers/test_never.py"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 of 5 survived"
    # Tests that do not reach the file detect nothing.
    assert main(["windowing/triggers/never.py", "--tests", "tests/windowing/triggers/test_count.py"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "5 faults"
    assert told[1].startswith("survived, line ")
    assert told[1].endswith("[no test reaches it]")
    assert told[-1] == "5 of 5 survived"
