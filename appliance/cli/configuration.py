"""Which configuration a command line asks for."""

from __future__ import annotations

import argparse
from pathlib import Path

from appliance import config as configuration
from appliance.config import Config

SYSTEM_CONFIG = Path("/etc/appliance/config.toml")


def read_config(args: argparse.Namespace) -> Config:
    """Read the file that is named, or the system's where there is one; what the command line sets goes before."""
    path = args.config or (SYSTEM_CONFIG if SYSTEM_CONFIG.exists() else None)
    return configuration.replaced(
        configuration.load(path), host=getattr(args, "host", None), port=getattr(args, "port", None), data=args.data
    )
