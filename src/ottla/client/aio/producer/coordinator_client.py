"""Makes requests to coordinators, and repeats them until their outcome is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ottla.client.aio.network.connection import Connection
from ottla.client.aio.network.coordinator_cache import KEY_GROUP
from ottla.client.aio.network.network import Network
from ottla.client.aio.producer.coordinator_requests import CoordinatorRequest
from ottla.client.state.producer.transactions import (
    CoordinatorErrorAction,
    action_for_coordinator_error,
)
from ottla.errors import AbortableError, ErrorCode, KafkaError, exception_for
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client")


class RequestFailedError(Exception):
    """A request failed and is not repeated; `action` is the consequence for the transaction."""

    def __init__(self, error: KafkaError, action: CoordinatorErrorAction) -> None:
        super().__init__(error, action)
        self.error = error
        self.action = action


class CoordinatorClient:
    """The coordinators, as the requests of one producer see them."""

    def __init__(self, network: Network, random_unit: Callable[[], float]) -> None:
        self.last_error: KafkaError | None = None
        """Why the request that is being repeated has not succeeded yet."""
        self._network = network
        self._random_unit = random_unit

    async def call(
        self, request: CoordinatorRequest, is_moot: Callable[[], bool] | None = None
    ) -> Any:
        """The answer without errors; the request is repeated until there is one.

        RequestFailedError if it cannot succeed, or if it is moot and certainly had no effect.
        """
        attempt = 0
        is_outcome_unknown = False
        self.last_error = None
        while True:
            try:
                connection, broker = await self._reach(request)
                # Until the answer has come, the coordinator may have done it or not.
                is_outcome_unknown = True
                version = connection.version_of(request.request_class, request.at_most)
                response = await connection.send(request.build(version), version)
                is_outcome_unknown = False
            except KafkaError as error:
                failure, action = error, action_for_coordinator_error(error.code)
                if isinstance(error, AbortableError) and action is CoordinatorErrorAction.DIE:
                    action = CoordinatorErrorAction.ABORT
                if request.key is None and not is_outcome_unknown:
                    # Any broker can answer, and this one was not reached: another may accept our credentials.
                    action = CoordinatorErrorAction.RETRY
            else:
                worst = _worst_error(request, response, broker)
                if worst is None:
                    self.last_error = None
                    return response
                failure, action = worst, action_for_coordinator_error(worst.code)
            if action not in (CoordinatorErrorAction.RETRY, CoordinatorErrorAction.FIND):
                raise RequestFailedError(failure, action)
            self.last_error = failure
            if action is CoordinatorErrorAction.FIND and request.key is not None:
                self._network.forget_coordinator(*request.key)
            if is_moot is not None and is_moot() and not is_outcome_unknown:
                raise RequestFailedError(failure, CoordinatorErrorAction.RETRY)
            log.debug("%s is repeated: %s", request.api, failure)
            await asyncio.sleep(self._backoff_ms(request, failure, attempt) / 1000)
            attempt += 1

    async def _reach(self, request: CoordinatorRequest) -> tuple[Connection, str]:
        """A connection to the coordinator, or to any broker if the request needs none, and the broker's name."""
        network = self._network
        if request.key is None:
            node_id = await network.any_node()
        else:
            node_id = await network.coordinator(*request.key)
        return await network.connection(node_id), network.name_of(node_id)

    def _backoff_ms(self, request: CoordinatorRequest, failure: KafkaError, attempt: int) -> float:
        backoff_ms = self._network.retry.delay_ms(attempt, self._random_unit())
        limit_ms = request.concurrent_backoff_ms
        if failure.code is ErrorCode.CONCURRENT_TRANSACTIONS and limit_ms is not None:
            return min(backoff_ms, limit_ms)
        return backoff_ms


def _worst_error(request: CoordinatorRequest, response: Any, broker: str) -> KafkaError | None:
    """Of the errors in an answer, the one with the gravest action; None if there is no error."""
    worst: tuple[int, ErrorCode, TopicPartition | None] | None = None
    for partition, number in request.codes_of(response).items():
        if number:
            code = ErrorCode(number)
            gravity = _GRAVITY[action_for_coordinator_error(code)]
            if worst is None or gravity > worst[0]:
                worst = gravity, code, partition
    if worst is None:
        return None
    _, code, partition = worst
    context: dict[str, object] = {"api": request.api, "broker": broker}
    if partition is not None:
        context["partition"] = str(partition)
    if request.key is not None:
        key_type, key = request.key
        context["group" if key_type == KEY_GROUP else "transactional_id"] = key
    return exception_for(code, None, **context)


_GRAVITY: Final = {
    CoordinatorErrorAction.RETRY: 0,
    CoordinatorErrorAction.FIND: 1,
    CoordinatorErrorAction.ABORT: 2,
    CoordinatorErrorAction.BUMP: 3,
    CoordinatorErrorAction.DIE: 4,
}
