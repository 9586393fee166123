"""What simulated clients have in common: they ask, wait, and ask again."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.sim.network import Caller, LinkBrokenError
from tests.sim.world import World

TIMEOUT_SECONDS = 5.0
RETRY_SECONDS = 0.2


class Client(Caller):
    """A caller that lives in a world and takes trouble for granted."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world.network, name, world.random(name))
        self.world = world
        self.rng = world.random(f"{name} choices")

    async def ask(
        self, node_id: int, request: Any, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Any | None:
        """The answer, or None if there was none, after a little while."""
        try:
            return await self.call(node_id, request, timeout_seconds)
        except (TimeoutError, LinkBrokenError):
            await self.back_off()
            return None

    async def ask_any(self, request: Any) -> Any:
        """The answer of some node that gave one."""
        while True:
            answer = await self.ask(self.rng.choice(list(self.world.nodes.configs)), request)
            if answer is not None:
                return answer

    async def back_off(self) -> None:
        await asyncio.sleep(RETRY_SECONDS * self.rng.uniform(0.5, 1.5))

    async def wait_between(self, shortest_seconds: float, longest_seconds: float) -> None:
        await asyncio.sleep(self.rng.uniform(shortest_seconds, longest_seconds))
