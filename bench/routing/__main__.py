"""python -m bench.routing: workers that pull and batch for themselves, against routers that push at them.

The same gateway, workers, batcher, models and load, once through the shared queue and once through each router. Exit
status 1 where a bar is missed, 2 where something could not be measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import machine, simulate
from bench.measure import MeasureError
from bench.routing import plot, report
from bench.routing.measure import Measured, measure, sustained
from bench.routing.table import Row, verdicts
from bench.routing.worlds import DEVICES, Policy, cases, chosen, even, policies, sustained_name

_SIMULATED_S = 20.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.routing", description=__doc__)
    parser.add_argument("--cases", nargs="*", default=[], help="beginnings of the names of the worlds wanted")
    parser.add_argument("--policies", nargs="*", default=[], help="names of the policies wanted")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warmup", type=float, default=3.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=Path("bench/results/routing.md"))
    arguments = parser.parse_args()
    wanted = [one for one in policies() if not arguments.policies or one.name in arguments.policies]
    try:
        rows = [*_rows(arguments, wanted), *_sustained_rows(arguments, wanted)]
    except MeasureError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    print("\n" + report.terminal(rows))
    report.write(arguments.out, rows, machine.facts("python -m bench.routing " + " ".join(sys.argv[1:])))
    plot.draw(arguments.out.with_suffix(".png"), rows)
    return 0 if all(one.holds for one in verdicts(rows)) else 1


def _rows(arguments: argparse.Namespace, wanted: Sequence[Policy]) -> list[Row]:
    """Measure every world under every policy; the repeats of a world take turns, so that they see the same machine."""
    found: list[Row] = []
    for case in chosen(list(cases()), arguments.cases):
        rows = [Row(case.name, policy.name, [], simulate.run(policy, case.world, _SIMULATED_S)) for policy in wanted]
        for repeat in range(arguments.repeats):
            for policy, row in zip(wanted, rows, strict=True):
                one = measure(case.world, policy, arguments.warmup, arguments.seconds, repeat)
                row.windows.append(one)
                _say(row, one)
        found += rows
    return found


def _sustained_rows(arguments: argparse.Namespace, wanted: Sequence[Policy]) -> list[Row]:
    """Seek the rate that people can live with, once for each repeat."""
    found: list[Row] = []
    for devices in DEVICES:
        name = sustained_name(devices)
        if arguments.cases and not any(name.startswith(one) for one in arguments.cases):
            continue
        for policy in wanted:
            guess = simulate.sustained(policy, devices, _SIMULATED_S)
            seen = simulate.run(policy, even(devices, rate=guess), _SIMULATED_S)
            row = Row(name, policy.name, [], seen)
            for repeat in range(arguments.repeats):
                one = sustained(even(devices), policy, guess, arguments.warmup, arguments.seconds, repeat)
                row.windows.append(one)
                _say(row, one)
            found.append(row)
    return found


def _say(row: Row, one: Measured) -> None:
    cpu = " ".join(f"{role} {used:.3f}" for role, used in one.cpu_ms.items())
    print(
        f"{row.case:<36} {row.policy:<26} {one.per_second:6.0f}/s  p50 {one.p50_ms:4.0f}  p99 {one.p99_ms:5.0f}  "
        f"batch {one.mean_batch:4.1f}  busy {one.busy_share:.2f}  loads {one.loads:.0f}  "
        f"simulated {row.simulated.per_second if row.simulated else 0:6.0f}/s  foreign {one.foreign:.2f}  {cpu}  "
        f"{one.failures or ''}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
