"""Which nodes coordinate groups and transactional ids: asked once with FindCoordinator, then remembered."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ottla.client.aio.network.connection import COORDINATOR_IDS
from ottla.client.aio.network.peer_pool import PeerPool
from ottla.errors import exception_for
from ottla.model import Endpoint
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

KEY_GROUP: Final = 0
KEY_TRANSACTION: Final = 1

_FIRST_WITH_KEY_LIST: Final = 4


class CoordinatorCache:
    """Node ids by key type and key."""

    def __init__(self, peers: PeerPool) -> None:
        self._peers = peers
        self._node_ids: dict[tuple[int, str], int] = {}

    @property
    def node_ids(self) -> Collection[int]:
        """The nodes that are remembered."""
        return self._node_ids.values()

    async def find(self, key_type: int, key: str) -> int:
        """The node that coordinates a group or a transactional id."""
        known = self._node_ids.get((key_type, key))
        if known is not None:
            return known

        def build(version: int) -> FindCoordinatorRequest:
            if version >= _FIRST_WITH_KEY_LIST:
                return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            return FindCoordinatorRequest(key=key, key_type=key_type)

        asked_id = await self._peers.any_node()
        response = await self._peers.call_versioned(asked_id, FindCoordinatorRequest, build)
        endpoint, node_id = _read_answer(response, key, self._peers.name_of(asked_id))
        if key_type == KEY_GROUP:
            # A connection of its own: heartbeats do not wait behind a fetch.
            node_id = COORDINATOR_IDS - node_id
            self._peers.set_endpoint(node_id, endpoint)
        elif not self._peers.is_listed(node_id):
            self._peers.set_endpoint(node_id, endpoint)
        self._node_ids[key_type, key] = node_id
        return node_id

    def forget(self, key_type: int, key: str) -> None:
        """The coordinator moved or cannot be reached: the next `find` asks again."""
        self._node_ids.pop((key_type, key), None)

    def clear(self) -> None:
        """Forget all."""
        self._node_ids.clear()


def _read_answer(response: FindCoordinatorResponse, key: str, broker: str) -> tuple[Endpoint, int]:
    found = next((each for each in response.coordinators if each.key == key), None) or response
    if found.error_code:
        raise exception_for(
            found.error_code, found.error_message, api="FindCoordinator", key=key, broker=broker
        )
    return Endpoint(found.host, found.port), found.node_id
