"""Brokers on one sequencer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.storage.shared.engine.brokers import Machine

Play = Callable[[Callable[[Machine], Awaitable[None]]], None]


@pytest.fixture
def play() -> Play:
    """Plays a scenario on a machine, in an event loop of its own; what it leaves open is closed."""

    def run(scenario: Callable[[Machine], Awaitable[None]]) -> None:
        async def whole() -> None:
            machine = Machine()
            try:
                await asyncio.wait_for(scenario(machine), 30)
            finally:
                await machine.close()

        asyncio.run(whole())

    return run
