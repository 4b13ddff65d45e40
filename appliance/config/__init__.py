"""The configuration: declared in settings.py, read by reading.py."""

from appliance.config.reading import from_table, load, replaced, to_table
from appliance.config.settings import (
    Config,
    Data,
    Engine,
    Jobs,
    Log,
    Queue,
    Server,
    Supervisor,
    Worker,
    fixed_changes,
)

__all__ = [
    "Config",
    "Data",
    "Engine",
    "Jobs",
    "Log",
    "Queue",
    "Server",
    "Supervisor",
    "Worker",
    "fixed_changes",
    "from_table",
    "load",
    "replaced",
    "to_table",
]
