"""The `appliance` command: parses, reads the configuration once, hands on. Exit status 78 for a bad configuration."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance.cli import check_config, drain, jobs, models, quarantine, run, status, version
from appliance.cli.configuration import SYSTEM_CONFIG, read_config
from appliance.config import Config
from appliance.errors import ApplianceError, ConfigError

BAD_CONFIGURATION = 78


def parser() -> argparse.ArgumentParser:
    """Build the command line; each command group adds its own part and its handler."""
    top = argparse.ArgumentParser(prog="appliance", description="Many small models behind one endpoint.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config", type=Path, metavar="FILE", help=f"configuration (default: {SYSTEM_CONFIG} if there)"
    )
    common.add_argument("--data", metavar="DIR", help="data folder, instead of data.dir")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for group in (run, drain, status, models, jobs, quarantine, check_config, version):
        group.add_parser(commands, common)
    return top


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        handled: int = args.handler(args, read_config(args) if "config" in args else Config())
    except ConfigError as exc:
        print(f"appliance: {exc.message}", file=sys.stderr)
        return BAD_CONFIGURATION
    except ApplianceError as exc:
        print(f"appliance: {exc.message}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return handled


if __name__ == "__main__":
    sys.exit(main())
