"""What the server does under load, and what it adds to the time that stages take: a server process, and clients in this one.

    python benchmarks/serve_load.py [--scenarios load cancel memory malformed fair] [--out FILE.json]

The server is agon's own but for what samples: a script, which answers after a second a stage. Everything goes over loopback TCP. `load`:
200 connections send 1,000 requests one after another, begun evenly over 2 s and all at once, whole answers and streams of 20 pieces a
stage; what the server adds is the time from a request's first byte to its answer's last, less the stages'. CPU time a request is what
depends least on who else uses the machine. `lag` is what the clients' own process adds. Ends with status 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from serve_load_bodies_parts import malformed
from serve_load_parts import (
    Answer,
    Connection,
    Server,
    chat,
    connected,
    fault_of,
    is_healthy,
    metrics_of,
    post,
    quantile,
    run,
    serving,
    watched,
)

STAGES = 2
NUM_REQUESTS = 1000
NUM_CONNECTIONS = 200
MOST_ADDED_MS = 50.0
MOST_WAIT_S = 5.0
NUM_FOR_MEMORY = 10_000
MOST_GROWTH_MB = 3.0


class Table:
    """Prints bars as they are decided, and remembers whether all were met."""

    def __init__(self) -> None:
        self.is_met = True

    def bar(self, what: str, shown: str, *, is_met: bool) -> None:
        self.is_met &= is_met
        print(f"{'met   ' if is_met else 'MISSED'} {what}: {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args()
    table = Table()
    results: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, Python {platform.python_version()}"}
    for name in options.scenarios:
        results[name] = SCENARIOS[name](table)
        results[name]["others_load"] = os.getloadavg()[0]
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(0 if table.is_met else 1)


def load(table: Table) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for is_streamed in (False, True):
        for spread_s in (2.0, 0.0):
            kind = f"{'stream' if is_streamed else 'whole'}, {'begun over 2 s' if spread_s else 'begun at once'}"
            with serving(seconds=1.0, num_pieces=20 if is_streamed else 1) as server:
                found = run(_ask_all(server, is_streamed, spread_s))
            results[kind] = found
            shown = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
            print(f"       {kind}: {shown}", flush=True)
            table.bar(f"{kind}: none lost, none mixed", f"{found['lost']}, {found['mixed']}", is_met=_is_clean(found))
            table.bar(
                f"{kind}: p99 of what the server adds under {MOST_ADDED_MS:g} ms",
                f"{found['added_p99_ms']:.1f} ms",
                is_met=found["added_p99_ms"] < MOST_ADDED_MS,
            )
    return results


def _is_clean(found: dict[str, Any]) -> bool:
    return found["lost"] == found["mixed"] == 0


async def _ask_all(server: Server, is_streamed: bool, spread_s: float) -> dict[str, float]:
    await _warm_up(server, is_streamed)
    marks = [_mark() for _ in range(NUM_REQUESTS)]
    asked: list[tuple[Answer, str]] = []
    before = await metrics_of(server)
    async with AsyncExitStack() as opened:
        connections = [await opened.enter_async_context(connected(server)) for _ in range(NUM_CONNECTIONS)]
        lag = await opened.enter_async_context(watched())
        started = time.perf_counter()

        async def ask(number: int, connection: Connection) -> None:
            await asyncio.sleep(spread_s * number / NUM_CONNECTIONS)
            for mark in marks[number::NUM_CONNECTIONS]:
                content = chat(server, mark, include_draft=True, stream=is_streamed)
                asked.append((await connection.ask(content), mark))

        await asyncio.gather(*(ask(*one) for one in enumerate(connections)))
        seconds = time.perf_counter() - started
    cpu_s = (await metrics_of(server))["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    faults = Counter(fault_of(answer, mark, is_streamed=is_streamed) for answer, mark in asked)
    added = [1000 * (answer.seconds - STAGES) for answer, _ in asked]
    return {
        "requests": len(asked),
        "lost": faults["lost"],
        "mixed": faults["mixed"],
        "added_p50_ms": quantile(added, 0.5),
        "added_p99_ms": quantile(added, 0.99),
        "added_max_ms": max(added),
        "server_cpu_ms_a_request": 1000 * cpu_s / len(asked),
        "client_lag_p99_ms": 1000 * quantile(lag.late, 0.99),
        "client_lag_max_ms": 1000 * max(lag.late),
        "client_cpu_ms_a_request": 1000 * lag.cpu_s / len(asked),
        "seconds": seconds,
    }


async def _warm_up(server: Server, is_streamed: bool) -> None:
    async with AsyncExitStack() as opened:
        connections = [await opened.enter_async_context(connected(server)) for _ in range(20)]
        content = chat(server, _mark(), include_draft=True, stream=is_streamed)
        await asyncio.gather(*(connection.ask(content) for connection in connections))


def cancel(table: Table) -> dict[str, Any]:
    with serving(seconds=1.0, num_pieces=20, max_running=64) as server:
        found = run(_leave_and_ask(server))
    table.bar(
        "200 parallel, half of which leave: one normal request after them answered within 5 s",
        f"{found['normal_s']:.2f} s ({found['normal_fault'] or 'right'}), {found['left']} left",
        is_met=found["normal_fault"] is None and found["normal_s"] < MOST_WAIT_S,
    )
    table.bar("those that stay: none lost, none mixed", f"{found['lost']}, {found['mixed']}", is_met=_is_clean(found))
    table.bar(
        "nothing is left of any of them after their answers",
        f"{found['running_after']:g} running, {found['waiting_after']:g} waiting",
        is_met=found["running_after"] == found["waiting_after"] == 0,
    )
    return found


async def _leave_and_ask(server: Server) -> dict[str, Any]:
    draw = random.Random(6)
    asked: list[tuple[Answer, str, bool]] = []
    num_left = 0

    async def ask(number: int) -> None:
        nonlocal num_left
        mark, is_streamed, leaves = _mark(), number % 4 < 2, number % 2 == 0
        async with connected(server) as connection:
            content = chat(server, mark, include_draft=True, stream=is_streamed)
            if not leaves:
                asked.append((await connection.ask(content), mark, is_streamed))
                return
            waiting = asyncio.ensure_future(connection.ask(content))
            await asyncio.wait([waiting], timeout=draw.uniform(0, 3))
            num_left += not waiting.done()
            waiting.cancel()

    tasks = [asyncio.create_task(ask(number)) for number in range(NUM_CONNECTIONS)]
    # The last of those that leave has left; of the others some still wait.
    await asyncio.gather(*tasks[::2])
    mark = _mark()
    async with connected(server) as connection:
        normal = await connection.ask(chat(server, mark, include_draft=True))
    await asyncio.gather(*tasks)
    counted = await metrics_of(server)
    faults = Counter(fault_of(answer, mark, is_streamed=streamed) for answer, mark, streamed in asked)
    return {
        "left": num_left,
        "stayed": len(asked),
        "lost": faults["lost"],
        "mixed": faults["mixed"],
        "normal_s": normal.seconds,
        "normal_fault": fault_of(normal, mark, is_streamed=False),
        "running_after": counted["agon_matches_running"],
        "waiting_after": counted["agon_requests_waiting"],
        "counted_as_left": counted.get('agon_cancelled_total{reason="client"}', 0.0),
    }


def memory(table: Table) -> dict[str, Any]:
    with serving(seconds=0.02, num_pieces=5) as server:
        found = run(_ask_many(server))
    grown = found["mb"][-1] - found["mb"][2]
    table.bar(
        f"memory flat over {NUM_FOR_MEMORY:,} requests: grown by less than {MOST_GROWTH_MB:g} MB from the 2,000th on",
        f"{grown:+.2f} MB ({', '.join(f'{value:.1f}' for value in found['mb'])} after each 1,000)",
        is_met=grown < MOST_GROWTH_MB,
    )
    table.bar("of these none lost, none mixed", f"{found['lost']}, {found['mixed']}", is_met=_is_clean(found))
    return found


async def _ask_many(server: Server) -> dict[str, Any]:
    """Ask in all the ways there are: whole, streamed, refused, and left in the middle."""
    faults: Counter[str | None] = Counter()

    async def ask(number: int) -> None:
        for turn in range(NUM_FOR_MEMORY // 10 // 50):
            async with connected(server) as connection:
                mark, is_streamed = _mark(), bool((number + turn) % 2)
                kind = (number + turn) % 10
                if kind == 0:
                    await connection.ask(post(server, b'{"messages": "none"'))
                    continue
                content = chat(server, mark, include_draft=True, stream=is_streamed)
                if kind == 1:
                    waiting = asyncio.ensure_future(connection.ask(content))
                    await asyncio.sleep(0.01)
                    waiting.cancel()
                    continue
                faults[fault_of(await connection.ask(content), mark, is_streamed=is_streamed)] += 1

    megabytes = [(await metrics_of(server))["process_resident_memory_bytes"] / 1e6]
    for _ in range(10):
        await asyncio.gather(*(ask(number) for number in range(50)))
        megabytes.append((await metrics_of(server))["process_resident_memory_bytes"] / 1e6)
    return {"mb": megabytes, "answered": faults.total(), "lost": faults["lost"], "mixed": faults["mixed"]}


def refuse(table: Table) -> dict[str, Any]:
    with serving(seconds=0.05) as server:
        found = run(_send_malformed(server))
    table.bar(
        f"{found['sent']} malformed bodies: all 4xx in the right shape",
        f"{found['refused']} ({', '.join(found['wrong']) or 'all'})",
        is_met=found["refused"] == found["sent"] >= 40,
    )
    table.bar("the server alive after each", str(found["is_alive"]), is_met=found["is_alive"])
    return found


async def _send_malformed(server: Server) -> dict[str, Any]:
    wrong: list[str] = []
    statuses: Counter[str] = Counter()
    is_alive = True
    bodies = malformed()
    for name, body, headers in bodies:
        async with connected(server) as connection:
            answer = await asyncio.wait_for(connection.ask(post(server, body, headers=headers)), 10)
        statuses[str(answer.status)] += 1
        if not 400 <= answer.status < 500 or not _has_shape(answer):
            wrong.append(f"{name}: {bytes(answer.content)[:100]!r}")
        is_alive &= await is_healthy(server)
    mark = _mark()
    async with connected(server) as connection:
        is_alive &= (
            fault_of(await connection.ask(chat(server, mark, include_draft=True)), mark, is_streamed=False) is None
        )
    found = {"sent": len(bodies), "refused": len(bodies) - len(wrong), "wrong": wrong, "statuses": dict(statuses)}
    return {**found, "is_alive": is_alive}


def _has_shape(answer: Answer) -> bool:
    try:
        tree = answer.json
    except ValueError:
        return False
    error = tree.get("error") if isinstance(tree, dict) else None
    return (
        isinstance(error, dict)
        and error.keys() == {"message", "type", "param", "code"}
        and error["type"] == "invalid_request_error"
        and isinstance(error["message"], str)
    )


def fair(table: Table) -> dict[str, Any]:
    with serving(seconds=0.1, max_running=16, max_queue=256, keys=("greedy", "modest")) as server:
        found = run(_share(server))
    table.bar(
        "20 requests of one key beside 250 of another that came first: begun in turns",
        f"the 20 took {found['modest_s']:.2f} s, {found['greedy_meanwhile']} of the 250 were answered meanwhile "
        f"(in turns: about 20, and 16 that ran already)",
        is_met=found["lost"] == 0 and found["greedy_meanwhile"] <= 2 * (20 + 16),
    )
    return found


async def _share(server: Server) -> dict[str, Any]:
    ended: dict[str, list[float]] = {"greedy": [], "modest": []}
    faults: Counter[str | None] = Counter()

    async def ask(key: str) -> None:
        mark = _mark()
        async with connected(server) as connection:
            answer = await connection.ask(chat(server, mark, key=key, include_draft=True))
        ended[key].append(answer.ended)
        faults[fault_of(answer, mark, is_streamed=False)] += 1

    flood = [asyncio.create_task(ask("greedy")) for _ in range(250)]
    while not any(task.done() for task in flood):
        await asyncio.sleep(0.01)
    started = time.perf_counter()
    await asyncio.gather(*(ask("modest") for _ in range(20)))
    last = max(ended["modest"])
    meanwhile = sum(started < one < last for one in ended["greedy"])
    await asyncio.gather(*flood)
    return {
        "modest_s": last - started,
        "greedy_meanwhile": meanwhile,
        "greedy_s": max(ended["greedy"]) - started,
        "lost": faults["lost"] + faults["mixed"],
    }


def _mark() -> str:
    return f"mark-{random.getrandbits(48):012x}"


Scenario = Callable[[Table], dict[str, Any]]
SCENARIOS: dict[str, Scenario] = {
    "load": load,
    "cancel": cancel,
    "memory": memory,
    "malformed": refuse,
    "fair": fair,
}


if __name__ == "__main__":
    main()
