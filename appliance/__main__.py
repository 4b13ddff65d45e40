"""The `appliance` command: parses, reads the configuration once, hands on. Exit status 78 for a bad configuration."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance import config as configuration
from appliance.cli import check_config, models, quarantine, run, status, version
from appliance.config import Config
from appliance.errors import ApplianceError, ConfigError

BAD_CONFIGURATION = 78
SYSTEM_CONFIG = Path("/etc/appliance/config.toml")


def parser() -> argparse.ArgumentParser:
    """Build the command line; each command group adds its own part and its handler."""
    top = argparse.ArgumentParser(prog="appliance", description="Many small models behind one endpoint.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config", type=Path, metavar="FILE", help=f"configuration (default: {SYSTEM_CONFIG} if there)"
    )
    common.add_argument("--data", metavar="DIR", help="data folder, instead of data.dir")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for group in (run, status, models, quarantine, check_config, version):
        group.add_parser(commands, common)
    return top


def read_config(args: argparse.Namespace) -> Config:
    """Return the configuration that the command line asks for."""
    path = args.config or (SYSTEM_CONFIG if SYSTEM_CONFIG.exists() else None)
    return configuration.replaced(
        configuration.load(path), host=getattr(args, "host", None), port=getattr(args, "port", None), data=args.data
    )


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
