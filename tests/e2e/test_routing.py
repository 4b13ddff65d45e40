"""The comparison with routers, in its shortest form: every policy's processes are real and answer everything."""

from __future__ import annotations

import pytest

from bench.routing.measure import measure
from bench.routing.worlds import STALE_S, Policy, even


@pytest.mark.parametrize(
    "policy", [Policy("pull"), Policy("two choices", "two choices"), Policy("rr", "round robin", STALE_S)]
)
def test_a_policy_answers_all_and_makes_batches(policy: Policy) -> None:
    one = measure(even(2, clients=64), policy, warmup_s=1.0, seconds=2.0, seed=1)
    assert one.failures == {}
    assert one.per_second > 150
    assert one.mean_batch > 3
