"""The appliance's daemon with a router for a queue: gateways that push, workers that take what they are given."""

from __future__ import annotations

import sys

from appliance import daemon
from appliance.__main__ import main
from appliance.supervisor import nats_server
from bench.routing import push

if __name__ == "__main__":
    daemon._argv = lambda part: [sys.executable, "-m", f"bench.routing.{part}"]
    nats_server.PUBLISH["gateway"] += (push.subject("*"),)
    nats_server.SUBSCRIBE["worker"] += (push.subject("*"),)
    raise SystemExit(main())
