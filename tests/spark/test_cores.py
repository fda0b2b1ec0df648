"""The number of tasks that a session runs at a time, from its settings alone. Without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from panestream.spark.session import known_cores

CLUSTER = {"spark.master": "k8s://here", "spark.executor.instances": "3", "spark.executor.cores": "4"}


class Session:
    """The part of a session that the code reads."""

    def __init__(self, **given: str) -> None:
        self.conf = SimpleNamespace(get=lambda name, default=None: given.get(name, default))


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3, 4]"}, 3),
        ({"spark.master": "local"}, 1),
        (CLUSTER, 12),
        ({**CLUSTER, "spark.task.cpus": "2"}, 6),
        ({**CLUSTER, "spark.dynamicAllocation.enabled": "true"}, None),
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, None),
        ({"spark.master": "local-cluster[2,1,1024]"}, None),
        ({}, None),
    ],
)
def test_cores_are_known_only_without_dynamic_allocation(settings: dict[str, str], cores: int | None) -> None:
    assert known_cores(Session(**settings)) == cores  # type: ignore[arg-type]
