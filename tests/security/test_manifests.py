"""Manifests with forged values are refused before a name in them is used as a path. Recorded manifests are accepted."""

from __future__ import annotations

import json
import tarfile

import pytest

from panestream.errors import PanestreamError
from panestream.spark.savepoint.manifest import SavepointManifest, check_manifest
from tests.golden.files import SAVEPOINTS, query_of
from tests.security.manifests import HARM


def manifest_in(file):
    with tarfile.open(file) as packed:
        (name,) = (each for each in packed.getnames() if "/manifest/part-" in each)
        told = json.loads(packed.extractfile(name).read())
    return {field: told[field] for field in SavepointManifest.__dataclass_fields__ if field in told}


@pytest.mark.parametrize("file", SAVEPOINTS, ids=query_of)
def test_recorded_manifest_is_accepted(file):
    assert check_manifest("saved", manifest_in(file), "take another one") is None


@pytest.mark.parametrize("harm", HARM)
def test_forged_manifest_is_refused(harm):
    told = manifest_in(next(file for file in SAVEPOINTS if query_of(file) == "panes"))
    HARM[harm](told)
    with pytest.raises(PanestreamError, match=r"the manifest of the savepoint saved|saved plan"):
        check_manifest("saved", told, "take another one")
