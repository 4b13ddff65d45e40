"""appliance version."""

from __future__ import annotations

import argparse
from typing import Any

from appliance import __version__
from appliance.config import Config


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("version", help="print the version")
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace, config: Config) -> int:
    print(f"appliance {__version__}")
    return 0
