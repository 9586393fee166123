"""Descriptions of the groups that lists show, by the console's own connection and for all browsers."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.admin_model.groups import GroupDescription
from ottla.console.clients import Clients
from ottla.errors import KafkaError, OttlaError, PartialFailureError, RetriableError

KEPT_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 3.0
MAX_GROUPS: Final = 2_000


class GroupDescriptions:
    """Asks for the groups of a page, and remembers them for some seconds."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known: OrderedDict[str, tuple[float, GroupDescription | None]] = OrderedDict()
        self._asking = asyncio.Lock()

    async def of(self, names: Iterable[str]) -> Mapping[str, GroupDescription]:
        """Those of these groups that coordinators describe in time; older answers where they do not."""
        wanted = list(names)
        async with self._asking:
            fresh_from = time.monotonic() - KEPT_SECONDS
            due = [
                name
                for name in wanted
                if name not in self._known or self._known[name][0] < fresh_from
            ]
            if due:
                await self._ask(due)
        found = {name: self._known[name][1] for name in wanted if name in self._known}
        return {name: each for name, each in found.items() if each is not None}

    async def _ask(self, names: list[str]) -> None:
        found: Mapping[str, GroupDescription] = {}
        gone: frozenset[str] = frozenset()
        try:
            found = await self._clients.admin().describe_groups(names, timeout=WAIT_SECONDS)
        except PartialFailureError as error:
            found, gone = error.results, frozenset(_refused(error.errors))
        except KafkaError as error:
            gone = frozenset(_refused(dict.fromkeys(names, error)))
        except OttlaError:
            pass
        now = time.monotonic()
        for name in names:
            _, before = self._known.get(name, (0.0, None))
            self._known[name] = (now, None if name in gone else found.get(name, before))
            self._known.move_to_end(name)
        while len(self._known) > MAX_GROUPS:
            self._known.popitem(last=False)


def _refused(errors: Mapping[str, KafkaError]) -> list[str]:
    """The groups that do not exist any more, or that the console may not describe: not those that are not answered."""
    return [name for name, error in errors.items() if not isinstance(error, RetriableError)]
