from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "turned", "left_alone"),
    [
        ({"num_workers": 2, "in_order": True}, {"in_order": False}, {}),
        ({"num_workers": 0, "in_order": True}, {}, {"in_order": "the loader has no workers"}),
        ({"num_workers": 2}, {}, {"in_order": "this torch has no such option"}),
    ],
)
def test_order_is_given_up_only_where_that_means_something(
    arguments: dict[str, Any], turned: dict[str, Any], left_alone: dict[str, str]
) -> None:
    from _vtune_hooks.turning import turn

    assert turn({"in_order": False}, arguments) == (turned, left_alone)
    assert arguments.get("in_order") is (None if "in_order" not in arguments else not turned)
