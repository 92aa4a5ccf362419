# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.openai_proxy``: how much later a client gets a piece of a stream.

An engine in this process sends pieces with the time in them, to 1, 8 and 32 clients at a time;
straight, and through servekit's ``openai-proxy``, in turns. Prints the median and the 99th
percentile of the delay between writing a piece and reading it.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import Final

from servekit import serve

CLIENTS: Final = (1, 8, 32)
ROUNDS: Final = 5
PIECES: Final = 300  #: of one stream
PAUSE_S: Final = 0.01  #: between two pieces
EVENT: Final = b'data: {"choices": [{"index": 0, "delta": {"content": "word"}}], "t": %.9f}\n\n'
BODY: Final = {"model": "llama", "stream": True, "messages": [{"role": "user", "content": "x"}]}


async def main() -> None:
    """Measure, and print."""
    engine = await asyncio.start_server(stream, "127.0.0.1", 0)
    port = engine.sockets[0].getsockname()[1]
    delays: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        options = f'[options]\nurl = "http://127.0.0.1:{port}/v1"\n'
        text = f'name = "llama"\nservice = "openai-proxy"\n{options}'
        (Path(directory) / "model.toml").write_text(text, encoding="utf-8")
        server = await asyncio.to_thread(serve, directory, block=False, port=0)
        ports = {"engine": port, "proxy": int(server.url.rpartition(":")[2])}
        for clients in CLIENTS * ROUNDS:
            for name, each in ports.items():
                found = await asyncio.gather(*[ask(each) for _ in range(clients)])
                known = delays.setdefault((clients, name), [])
                known += [delay for each_client in found for delay in each_client]
        await asyncio.to_thread(server.stop)
    for clients in CLIENTS:
        told = [f"{name} {shown(delays[clients, name])}" for name in ports]
        added = median(delays[clients, "proxy"]) - median(delays[clients, "engine"])
        print(f"{clients:2} clients: {', '.join(told)}; the proxy adds {added * 1000:.2f} ms")


def shown(delays: list[float]) -> str:
    """Return the median and the 99th percentile."""
    return f"{median(delays) * 1000:.2f} ms (p99 {quantiles(delays, n=100)[98] * 1000:.2f})"


async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as an engine does."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(length_in(head))
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                continue
            fields = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked"
            writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % fields)
            for _ in range(PIECES):
                piece = EVENT % monotonic()
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await asyncio.sleep(PAUSE_S)
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def length_in(head: bytes) -> int:
    """Return the length of the body behind *head*."""
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


async def ask(port: int) -> list[float]:
    """Return the delay of each piece of a stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(BODY).encode()
    fields = b"Host: a\r\nContent-Type: application/json\r\nContent-Length: %d" % len(body)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\n%b\r\n\r\n%b" % (fields, body))
    delays: list[float] = []
    while len(delays) < PIECES:
        line = await reader.readline()
        now = monotonic()
        if line.startswith(b"data: {"):
            delays.append(now - json.loads(line[6:])["t"])
    writer.close()
    return delays


if __name__ == "__main__":
    asyncio.run(main())
