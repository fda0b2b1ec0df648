"""A process that writes without Spark is killed, or paused and replaced, at random moments: the store has the rows of the model.

``PANESTREAM_KILLS=200`` sets how often, for each store. Every third victim is paused instead: it continues when a later
run has written, and must end with FencedError.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid

import pytest

from tests.connectors.kills import ROOT, SEED
from tests.connectors.serving.writer import committed, make, rows_after

pytestmark = pytest.mark.connectors

NUMBER = int(os.environ.get("PANESTREAM_KILLS", "6"))
FOREVER = 100_000


def content(server, kind, name):
    if kind == "postgres":
        return dict(server.rows(f"SELECT key, value FROM {name}"))
    with server.client() as client:
        keys = [key for key in client.scan_iter(f"{name}:*") if not key.endswith("#fence")]
        found = map(json.loads, client.mget(keys))
        return {row["key"]: row["value"] for row in found}


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_killed_and_paused_writers_leave_the_rows_of_the_model(kind, request, tmp_path):
    server = request.getfixturevalue("postgres" if kind == "postgres" else "redis_server")
    address, name = server.address, f"w_{uuid.uuid4().hex[:10]}"
    numbers, paused, fenced, kills = random.Random(SEED), None, 0, 0

    nursery = subprocess.Popen(
        [sys.executable, "-m", "tests.connectors.serving.writer", kind, address, name, str(tmp_path)], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip

    def start(run, last=FOREVER):
        nursery.stdin.write(f"{run} {last}\n")
        nursery.stdin.flush()
        return int(nursery.stdout.readline())

    def wait_for(kind, run):
        until = time.monotonic() + 120
        while not (tmp_path / f"{kind}-{run}").exists():
            failed = tmp_path / f"outcome-{run}"
            assert kind == "outcome" or not failed.exists(), failed.read_text()
            assert time.monotonic() < until, f"run {run}: no {kind}"
            time.sleep(0.005)
        time.sleep(0.01)

    def must_be_fenced(process, run):
        before = committed(tmp_path)
        os.kill(process, signal.SIGCONT)
        wait_for("outcome", run)
        said = (tmp_path / f"outcome-{run}").read_text()
        # PostgreSQL ends the transaction of a copy that was paused while it held the fence.
        ended = "idle-in-transaction" in said or "server closed the connection" in said
        assert said.startswith("FencedError") or (kind == "postgres" and ended), said
        # A copy that was paused after its write notes an older micro-batch as committed, which Spark's log would refuse.
        (tmp_path / "committed").write_text(str(before))

    begin = time.monotonic()
    for run in range(1, NUMBER + 1):
        process = start(run)
        wait_for("ready", run)
        time.sleep(numbers.uniform(0, 0.25))
        if run % 3 == 0 and paused is None and run < NUMBER:
            os.kill(process, signal.SIGSTOP)
            paused = process, run
            continue
        os.kill(process, signal.SIGKILL)
        kills += 1
        if paused is not None:
            must_be_fenced(*paused)
            paused, fenced = None, fenced + 1
    last = committed(tmp_path) + 2
    start(NUMBER + 1, last)
    wait_for("outcome", NUMBER + 1)
    nursery.stdin.close()
    nursery.wait()
    nursery.stdout.close()
    assert (tmp_path / f"outcome-{NUMBER + 1}").read_text() == "done"
    assert content(server, kind, name) == rows_after(last)
    assert make(kind, address, name).lookup(next(iter(rows_after(last))))["value"] <= last
    print(f"{kind}: {kills} kills and {fenced} fenced copies in {time.monotonic() - begin:.0f} s, {last + 1} micro-batches")
