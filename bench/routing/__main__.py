"""python -m bench.routing: workers that pull and batch for themselves, against routers that push at them.

The same gateway, workers, batcher, models and load, once through the shared queue and once through each router.
"""

from __future__ import annotations

import argparse
import sys

from bench.measure import MeasureError
from bench.routing.measure import Measured, measure
from bench.routing.worlds import cases, chosen, policies


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.routing", description=__doc__)
    parser.add_argument("--cases", nargs="*", default=[], help="beginnings of the names of the rows wanted")
    parser.add_argument("--policies", nargs="*", default=[], help="names of the policies wanted")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warmup", type=float, default=4.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    wanted = [one for one in policies() if not arguments.policies or one.name in arguments.policies]
    try:
        for case in chosen(list(cases()), arguments.cases):
            for repeat in range(arguments.repeats):
                for policy in wanted:
                    one = measure(case, policy, arguments.warmup, arguments.seconds, repeat)
                    print(f"{case.name:<32} {policy.name:<26} {_told(one)}", flush=True)
    except MeasureError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    return 0


def _told(one: Measured) -> str:
    cpu = " ".join(f"{role} {used:.3f}" for role, used in one.cpu_ms.items())
    return (
        f"{one.per_second:6.0f}/s  p50 {one.p50_ms:4.0f}  p99 {one.p99_ms:5.0f}  batch {one.mean_batch:4.1f}  "
        f"busy {one.busy_share:.2f}  loads {one.loads:.0f}  foreign {one.foreign:.2f}  {cpu}  {one.failures or ''}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
