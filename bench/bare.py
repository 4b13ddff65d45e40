"""The limit of the row "fake": an aiohttp handler that reads the body and answers always the same bytes."""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
from pathlib import Path

import uvloop
from aiohttp import web


async def serve(body: bytes) -> None:
    """Serve on a loopback port of the system's choice, printed first, until SIGTERM."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app = web.Application()
    app.router.add_post("/v1/embeddings", answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    await web.SockSite(runner, sock, backlog=1024).start()
    print(sock.getsockname()[1], flush=True)
    await stop.wait()
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.bare", description=__doc__)
    parser.add_argument("body", type=Path, help="file with the body to answer")
    uvloop.run(serve(parser.parse_args().body.read_bytes()))


if __name__ == "__main__":
    main()
