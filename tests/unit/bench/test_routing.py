from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.routing import plot, report
from bench.routing.crowd import zipf_requests
from bench.routing.measure import Measured
from bench.routing.push import Routing, routing
from bench.routing.table import Row, verdicts
from bench.routing.worlds import PULL, cases, chosen, policies
from bench.simulation import Seen

CASE = "a: 4 devices, 256 clients"


def window(per_second: float, p99_ms: float = 100.0, busy: float = 0.99) -> Measured:
    return Measured(per_second, p99_ms / 2, p99_ms, 20.0, busy, 0.1, 0.0, 0, {"gateway": 0.1, "load generator": 9.0})


def row(policy: str, *windows: Measured, case: str = CASE, simulated: float = 0.0) -> Row:
    seen = Seen(simulated, 0.1, 0.1, 0.1, 20.0, 0.99, 0) if simulated else None
    return Row(case, policy, list(windows), seen)


def test_pulling_is_held_against_the_best_of_all_routers() -> None:
    rows = [row(PULL, window(300)), row("random", window(150)), row("two choices", window(200))]
    gain, p99, busy = verdicts(rows)
    assert (gain.value, gain.bar, gain.holds) == (1.5, 1.55, False)
    assert (p99.value, p99.holds) == (1.0, True)
    assert (busy.value, busy.holds) == (0.99, True)


def test_the_p99_is_held_against_the_lowest_even_if_another_router_carries_more() -> None:
    rows = [row(PULL, window(300, 90)), row("random", window(150, 80)), row("two choices", window(190, 200))]
    assert [one.holds for one in verdicts(rows)] == [True, False, True]


def test_medians_count_and_their_spread_is_told() -> None:
    one = row(PULL, window(100), window(300), window(200))
    assert (one.per_second, one.spread) == (200, 1.0)


def test_a_simulation_that_is_too_far_off_is_a_miss() -> None:
    rows = [row(PULL, window(300), simulated=310), row("random", window(150), simulated=180)]
    off = verdicts(rows)[-1]
    assert off.what.startswith("simulation off")
    assert off.value == pytest.approx(0.2)
    assert not off.holds


def test_a_world_without_routers_is_not_held_against_anything() -> None:
    assert verdicts([row(PULL, window(300))]) == []


def test_the_table_the_json_and_the_picture_are_written(tmp_path: Path) -> None:
    rows = [row(PULL, window(300), simulated=310), row("random, stale", window(150))]
    report.write(tmp_path / "routing.md", rows, {"CPU": "some"})
    plot.draw(tmp_path / "routing.png", rows)
    text = (tmp_path / "routing.md").read_text()
    assert "| a: 4 devices, 256 clients | random, stale | 150 |" in text
    assert "2.00x" in text
    assert " 0.10 |" in text, "the load generator is not one of the appliance's processes"
    assert len(json.loads((tmp_path / "routing.json").read_text())["rows"]) == 2
    assert (tmp_path / "routing.png").read_bytes().startswith(b"\x89PNG")


def test_the_kth_model_is_asked_for_a_kth_as_often_and_no_text_twice() -> None:
    requests = zipf_requests(1, 3, seed=1)
    counts = [sum(b'"fake%d"' % model in request for request in requests) for model in range(3)]
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.05)
    assert counts[0] / counts[2] == pytest.approx(3, rel=0.05)
    assert len(set(requests)) == len(requests)


def test_a_child_is_told_which_router_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Routing("two choices", ["virtual0", "virtual1"], 0.25)
    for name, value in told.environment().items():
        monkeypatch.setenv(name, value)
    assert routing() == told


def test_worlds_are_chosen_by_the_beginnings_of_their_names() -> None:
    every = list(cases())
    assert chosen(every, []) == every
    assert {case.name[0] for case in chosen(every, ["a", "d: 4"])} == {"a", "d"}
    assert len(policies()) == 9
