"""What a program does with the installed lbtrace, run by each Python there is.

python -W error tests/wheel/api.py PROGRAM, where PROGRAM is tests/programs/fib.c compiled
"""

from __future__ import annotations

import asyncio
import pydoc
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import lbtrace


def count(program: str, n: int) -> int:
    with lbtrace.trace(command=[program, str(n)], functions="fib") as session:
        calls = [*session.calls()]
        assert calls[-1]["n"] == n
        assert session.wait() == 0
        return len(calls)


async def count_async(program: str, n: int) -> int:
    async with lbtrace.trace(command=[program, str(n)], functions="fib") as session:
        return len([call async for call in session.calls()])


async def count_both(program: str) -> list[int]:
    return await asyncio.gather(count_async(program, 4), count_async(program, 5))


def main(program: str) -> None:
    for name in dir(lbtrace):
        getattr(lbtrace, name)
    assert "Capture" in pydoc.render_doc(lbtrace)
    assert count(program, 4) == 9
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda n: count(program, n), (4, 5))] == [9, 15]
    assert asyncio.run(count_both(program)) == [9, 15]
    with suppress(lbtrace.DependencyError):  # the extras are not installed
        lbtrace.to_pandas([])


if __name__ == "__main__":
    main(sys.argv[1])
