import json

import pytest

from vtune.errors import UsageError
from vtune.execution.engines.simulated.surface import Surface, settings_of, surface_of
from vtune.execution.engines.simulated.surfaces import SURFACES
from vtune.journal.files import to_json


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_a_surface_is_plain_data_and_back(surface: Surface) -> None:
    assert surface_of(json.loads(json.dumps(to_json(surface)))) == surface


def test_a_misspelt_key_of_a_surface_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match=r'unknown key "cpu" in surface.sample'):
        surface_of({"name": "x", "sample": {"cpu": 1.0}})
    with pytest.raises(UsageError, match="surface has no name"):
        surface_of({})


def test_without_workers_there_is_neither_a_queue_nor_anything_to_keep() -> None:
    settings = settings_of(Surface(name="x"), {"workers": 0, "prefetch_factor": 4, "persistent_workers": True})
    assert (settings.stock, settings.persistent) == (0, False)


def test_two_batches_are_ordered_ahead_unless_said_otherwise() -> None:
    assert settings_of(Surface(name="x", settings={"workers": 3}), {}).stock == 6
