"""The table of faults, the short form of each, and the document that a whole run writes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from faults import models, report
from faults.__main__ import choose
from faults.catalogue import FAULTS
from faults.fault import Expect, Fault
from faults.mix import Guilty, Mix, requests
from faults.oracle import Verdict
from faults.run import Options, Row, run
from faults.settings import toml
from tests.store import find_store

NAMES = [fault.name for fault in FAULTS]

OPEN: dict[str, str] = {}
"""What the appliance does not hold yet, and why. A line goes when its cause does."""


@pytest.fixture(scope="session")
def options() -> Options:
    store = find_store()
    return Options(seed=1, short=True, store=store if (store / models.real_folder()).is_dir() else None)


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS if fault.in_short])
def test_in_short(name: str, options: Options, tmp_path: Path) -> None:
    (fault,) = choose(name)
    row = run(fault, options, tmp_path)
    if row.skipped:
        pytest.skip(row.skipped)
    if row.problems and name in OPEN:
        pytest.xfail(OPEN[name])
    assert row.problems == [], report.line(row)


def test_the_catalogue_is_large_and_no_fault_is_a_token_one() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 25
    assert [fault.name for fault in FAULTS if fault.requests < 5000 and fault.times < 20] == []


def test_what_is_open_is_in_the_catalogue() -> None:
    assert set(OPEN) <= set(NAMES)


def test_a_name_that_is_not_there_is_told() -> None:
    assert choose("") == list(FAULTS)
    with pytest.raises(ValueError, match="no-such-fault"):
        choose("engine-kill,no-such-fault")


def test_the_same_seed_asks_the_same() -> None:
    mix = Mix(guilty=Guilty("poison", every=7, models=("oak",)))

    def first(seed: str) -> list[object]:
        return list(islice(requests(mix, seed, ["a", "b"]), 50))

    assert first("1 x 0") == first("1 x 0") != first("2 x 0")


def test_settings_become_a_configuration() -> None:
    given = {"worker.streams": 2, "log.level": "info"}
    assert toml(given) == '[worker]\ndevices = ["cpu"]\nstreams = 2\n[log]\nrequests = false\nlevel = "info"\n'


def rows() -> list[Row]:
    fine = Verdict(requests=10, admitted=10, answered=10, innocents=10, innocents_answered=10, gap_s=0.5, p99_s=0.1)
    bad = Verdict(requests=1000, admitted=1000, answered=999, lost=1, innocents=1000, innocents_answered=999)
    made = [Fault(name, f"what {name} does", lambda scene: None, expect=Expect()) for name in ("one", "two", "three")]
    return [Row(made[0], fine), Row(made[1], bad, problems=["1 lost"]), Row(made[2], skipped="needs root")]


def test_the_document_has_every_row_with_its_verdict(tmp_path: Path) -> None:
    report.write(tmp_path / "docs" / "faults.md", rows(), {"seed": "7"})
    text = (tmp_path / "docs" / "faults.md").read_text()
    assert "| one | 0 | 10 | 0 | 10 | 10 | 0 | 0 | 0 | 0 | 0.50 | 0.10 | 100 % | ok |" in text
    assert "| 99.9 % | 1 lost |" in text
    assert "| skipped: needs root |" in text
    assert "| seed | 7 |" in text
    assert "- **two**: what two does" in text


def test_the_terminal_says_what_did_not_hold() -> None:
    assert "NOT HELD: 1 lost" in report.line(rows()[1])
