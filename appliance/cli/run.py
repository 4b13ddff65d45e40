"""appliance run: the daemon in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from appliance import log
from appliance.cli.configuration import read_config
from appliance.config import Config
from appliance.daemon import Daemon
from appliance.supervisor import scheduling
from appliance.supervisor.notify import Notifier

REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what to call, not what to bind


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("run", parents=[common], help="run the appliance until SIGTERM or Ctrl-C")
    parser.add_argument("--host", help="address to listen on, instead of server.host")
    parser.add_argument("--port", type=int, help="port to listen on, instead of server.port")
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace, config: Config) -> int:
    log.setup(config.log.level, config.log.format == "json")
    scheduling.let_others_compute()

    async def serve() -> None:
        daemon = Daemon(
            config,
            lambda: read_config(args),
            Notifier(os.environ),
            lambda model: print(first_words(*daemon.address, model), flush=True),
        )
        await daemon.run()

    asyncio.run(serve())
    return 0


def first_words(host: str, port: int, model: str) -> str:
    """Return the line that an administrator can paste."""
    return (
        "\nReady. Try it:\n"
        f"  curl -s http://{REACHED_AT.get(host, host)}:{port}/v1/embeddings -H 'Content-Type: application/json' "
        f"""-d '{{"model": "{model}", "input": "Hello, office"}}'\n"""
    )
