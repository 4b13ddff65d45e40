"""appliance check-config: say whether a configuration would be taken, and what it comes to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from appliance import config as configuration
from appliance.config import Config
from appliance.supervisor import gpus


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("check-config", help="check a configuration file")
    parser.add_argument("config", nargs="?", type=Path, metavar="FILE", help="the file; the one in use if omitted")
    parser.set_defaults(handler=handle, data=None)


def handle(args: argparse.Namespace, config: Config) -> int:
    """`config` is already parsed: a wrong key or type has ended in an error before."""
    gpus.resolve(config.worker.devices, gpus.count_gpus()[0])
    print(f"{args.config or 'The default configuration'} is good.")
    for section, settings in configuration.to_table(config).items():
        changed = {k: v for k, v in settings.items() if v != configuration.to_table(Config())[section][k]}
        for key, value in changed.items():
            print(f"  {section}.{key} = {value!r}")
    return 0
