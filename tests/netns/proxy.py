"""A network that is alive but slow: hands TCP connections on, each direction at its own pace.

`python -m tests.netns.proxy LISTEN TARGET`; lines of JSON on standard input set the pace of `down`, from the target,
and of `up`, to it: bytes per second (null: as fast as they come, 0: none at all) and a delay of each byte.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import Any

CHUNK_BYTES = 16_384
CHUNKS_MAX = 64
SLICE_SECONDS = 0.05


@dataclass
class Pace:
    """How one direction runs; the same for all connections."""

    bytes_per_second: int | None = None
    delay_seconds: float = 0.0
    passed: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def set(self, bytes_per_second: int | None, delay_seconds: float) -> None:
        self.bytes_per_second, self.delay_seconds = bytes_per_second, delay_seconds
        self.changed.set()
        self.changed = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Bytes of one connection, in order, until either end closes it."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MAX)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take(reader, under_way))
            group.create_task(self._give(under_way, writer))

    async def _take(self, reader: asyncio.StreamReader, under_way: "asyncio.Queue[tuple[float, bytes]]") -> None:
        loop = asyncio.get_running_loop()
        while chunk := await reader.read(CHUNK_BYTES):
            await under_way.put((loop.time() + self.delay_seconds, chunk))
        raise ConnectionResetError

    async def _give(self, under_way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await under_way.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            while chunk:
                if self.bytes_per_second == 0:
                    await self.changed.wait()
                    continue
                rate = self.bytes_per_second
                size = len(chunk) if rate is None else max(1, int(rate * SLICE_SECONDS))
                writer.write(chunk[:size])
                await writer.drain()
                self.passed += len(chunk[:size])
                chunk = chunk[size:]
                if rate is not None:
                    await asyncio.sleep(SLICE_SECONDS)


async def run(listen: str, target: str) -> None:
    paces = {"up": Pace(), "down": Pace()}

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*target.rsplit(":", 1))
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(paces["up"].carry(reader, far_writer))
                group.create_task(paces["down"].carry(far_reader, writer))
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            far_writer.transport.abort()

    host, port = listen.rsplit(":", 1)
    server = await asyncio.start_server(connection, host, int(port))
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with server:
        while line := await lines.readline():
            request: dict[str, Any] = json.loads(line)
            if request["do"] == "pace":
                paces[request["way"]].set(request["bytes_per_second"], request["delay_seconds"])
            answer = {way: pace.passed for way, pace in paces.items()}
            sys.stdout.write(json.dumps({"id": request["id"], "answer": answer}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2]))
