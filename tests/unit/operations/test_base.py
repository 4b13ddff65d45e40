from __future__ import annotations

import pytest

from appliance.operations import base


def test_an_unknown_operation_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        base.create("dream", {})
