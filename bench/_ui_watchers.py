"""Open pages, as browsers keep them: python -m bench._ui_watchers HOST:PORT PATH COUNT. Prints `open` when each has had
its first fragments; at the end of its stdin, the bytes that all have got.
"""

import asyncio
import sys
from urllib.parse import quote

OF_ADDRESS = 50
"""So many come from one address: a server allows each only some."""


async def follow(address: str, path: str, number: int, got: list[int], first: asyncio.Semaphore) -> None:
    """One stream, read as it comes."""
    host, _, port = address.partition(":")
    source = (f"127.0.0.{1 + number // OF_ADDRESS}", 0)
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=source)
    lines = [f"GET /ui/stream?watch={quote(path, safe='')} HTTP/1.1", f"Host: {address}", "Accept-Encoding: gzip"]
    writer.write("\r\n".join([*lines, "\r\n"]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise SystemExit(f"the stream was refused: {head.decode()}")
    while part := await reader.read(65536):
        if not got[0]:
            first.release()
        got[0] += len(part)
    raise SystemExit("the stream has ended")


async def main(address: str, path: str, count: int) -> None:
    """Follows until stdin ends."""
    loop = asyncio.get_running_loop()
    got = [[0] for _ in range(count)]
    first = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(follow(address, path, at, each, first)) for at, each in enumerate(got)]
    for _ in range(count):
        await first.acquire()
    print("open", flush=True)
    end = loop.run_in_executor(None, sys.stdin.read)
    done, _ = await asyncio.wait([*tasks, asyncio.ensure_future(end)], return_when=asyncio.FIRST_COMPLETED)
    for task in done & {*tasks}:
        task.result()
    print(sum(each[0] for each in got), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
