"""All listeners of an app, started, watched and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.app.declarations.listener_spec import ListenerSpec
from ottla.app.instruments import Instruments
from ottla.app.listening.app_clock import AppClock
from ottla.app.listening.clients import Clients
from ottla.app.listening.listener_health import ListenerHealth
from ottla.app.listening.listener_run import ListenerRun

__all__ = ["ListenerRun", "Runtime"]

_SETTLED_CHECKS: Final = 2
_SETTLED_PAUSE_SECONDS: Final = 0.02


class Runtime:
    """Runs the listeners of an app.

    runtime = Runtime(specs, clients)
    await runtime.start()
    await runtime.wait()        # until a listener fails, which it raises, or until `drain`
    await runtime.drain(30)
    """

    def __init__(
        self,
        specs: Iterable[ListenerSpec],
        clients: Clients,
        *,
        instruments: Instruments | None = None,
        clock: AppClock | None = None,
    ) -> None:
        self.clock = AppClock() if clock is None else clock
        self.listeners = {
            spec.name: ListenerRun(spec, clients, instruments=instruments, clock=self.clock)
            for spec in specs
        }

    async def start(self) -> None:
        """Start all listeners; if one cannot start, the others are stopped again."""
        try:
            for run in self.listeners.values():
                await run.start()
        except BaseException:
            await self.stop()
            raise

    async def wait(self) -> None:
        """Wait until all listeners have ended; raises the first failure as soon as there is one."""
        ends = [run.ended for run in self.listeners.values()]
        if not ends:
            return
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_EXCEPTION)
        for ended in done:
            ended.result()

    async def drain(self, timeout: float | None = None) -> None:
        """Let all listeners finish what they have in hand, commit, and leave their groups."""
        await asyncio.gather(*(run.drain(timeout) for run in self.listeners.values()))

    async def stop(self) -> None:
        """Cancel running handlers, commit what is finished, and leave the groups."""
        await asyncio.gather(*(run.stop() for run in self.listeners.values()))

    def health(self) -> Sequence[ListenerHealth]:
        """How each listener fares."""
        return [run.health() for run in self.listeners.values()]

    async def settled(self) -> None:
        """Wait until every listener has finished and committed everything that is in its topics.

        What one listener sends is work for another one: all have to be settled twice, without a record in between.
        """
        seen = 0
        received = -1
        while seen < _SETTLED_CHECKS:
            for run in self.listeners.values():
                if run.ended.done():
                    run.ended.result()
            settled = [await run.is_settled() for run in self.listeners.values()]
            now = sum(run.counters.received for run in self.listeners.values())
            seen = seen + 1 if all(settled) and now == received else 0
            received = now
            if seen < _SETTLED_CHECKS:
                await asyncio.sleep(_SETTLED_PAUSE_SECONDS)
