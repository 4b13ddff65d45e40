from __future__ import annotations

import pytest

from appliance.errors import BadRequest
from appliance.gateway.terms import timeout_of


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 60.0),
        ({"X-Request-Timeout": "0.05"}, 0.05),
        ({"X-Request-Timeout": "12"}, 12.0),
        ({"X-Request-Timeout": "100000"}, 600.0),
        ({"X-Request-Timeout": "inf"}, 600.0),
        ({"X-Stainless-Read-Timeout": "30"}, 30.0),
        ({"X-Request-Timeout": "5", "X-Stainless-Read-Timeout": "30"}, 5.0),
    ],
)
def test_a_request_may_say_how_long_it_waits_within_the_ceiling(headers: dict[str, str], seconds: float) -> None:
    assert timeout_of(headers, 60.0, 600.0) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-1", "0", "nan", "1s"])
def test_a_time_that_is_none_is_refused_by_the_header_s_name(value: str) -> None:
    with pytest.raises(BadRequest) as caught:
        timeout_of({"X-Request-Timeout": value}, 60.0, 600.0)
    assert caught.value.param == "X-Request-Timeout"
