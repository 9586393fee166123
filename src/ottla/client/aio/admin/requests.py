"""Requests of the admin client: one to each node that has to be asked, with retries until the timeout."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from ottla.client.aio.admin.answers import (
    Answers,
    ErrorMeanings,
    K,
    V,
    results_or_raise,
)
from ottla.client.aio.admin.nodes import LeaderCache
from ottla.client.aio.network.connection import Connection
from ottla.client.aio.network.network import Network
from ottla.client.arguments import seconds_of
from ottla.client.metrics.kafka_metrics import Metrics
from ottla.client.state.backoff import Backoff
from ottla.config.admin import AdminConfig
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    KafkaError,
    RetriableError,
    TimedOutError,
)
from ottla.wire.declare import info_of

# How much later than a request this module times out: the request's own error is more precise.
_GRACE_MS = 50

# A TopicPartition or a plain tuple; for type checkers the keys of a Mapping have to be of one type.
Partition = TypeVar("Partition", bound=tuple[str, int])
P = ParamSpec("P")
R = TypeVar("R")


class Nodes(Protocol[K]):
    """Which node has to be asked for a key: `nodes.py` has the implementations."""

    what: str
    """The word for a key in errors: topic, group, partition …"""
    plural: str
    meanings: ErrorMeanings

    async def find(
        self, keys: Sequence[K], requests: AdminRequests, timeout_ms: float
    ) -> Answers[K, int]:
        """The node id for each key; called again for keys that have moved."""
        ...


Ask = Callable[[int, list[K], float, Answers[K, V]], Awaitable[None]]
"""Sends requests to one node: node id, keys, timeout in ms, where to add the outcomes."""


@dataclass(frozen=True)
class ApiCall(Generic[K, V]):
    """One API: how its request is built and its response is read."""

    request: type[Any]
    build: Callable[[int, list[K], int], Any]
    """The request at a version, for some keys, with a timeout in ms."""
    read: Callable[[Any, Answers[K, V]], None]
    at_most: int | None = None
    """The newest version to use."""
    meanings: ErrorMeanings = field(default_factory=dict)
    """The meanings of error codes in this API, in addition to `Nodes.meanings`."""


def name_of(request: type[Any]) -> str:
    """Kafka's name of an API."""
    return info_of(request).name.removesuffix("Request")


def version_at(connection: Connection, request: type[Any], at_most: int | None = None) -> int:
    """The newest version that both support; a broker without the API fails this call, not the client."""
    try:
        return connection.version_of(request, at_most)
    except FatalError as error:
        raise AbortableError(error.code, error.message, error.context) from None


def timeout_in_seconds(
    method: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Refuse `timeout_ms`, the argument of other clients, and name `timeout` in seconds instead."""

    @wraps(method)
    async def call(*args: P.args, **options: P.kwargs) -> R:
        if "timeout_ms" in options:
            timeout_ms = options["timeout_ms"]
            instead = f"{timeout_ms / 1000:g}" if isinstance(timeout_ms, int | float) else "SECONDS"
            raise TypeError(
                f"{method.__name__}() takes its time limit in seconds: write timeout={instead} "
                f"instead of timeout_ms={timeout_ms!r}"
            )
        return await method(*args, **options)

    return call


class AdminRequests:
    """Sends the requests of an admin client."""

    def __init__(
        self, network: Network, config: AdminConfig, check_open: Callable[[], None]
    ) -> None:
        self.network = network
        self.config = config
        self.metrics = Metrics()
        self.leaders = LeaderCache()
        self._check_open = check_open
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def ask(
        self,
        keys: Iterable[K],
        nodes: Nodes[K],
        call: ApiCall[K, V],
        timeout: float | None = None,
    ) -> dict[K, V]:
        """The results of one API for all keys, with one request to each node; temporary errors are retried."""

        async def ask(node: int, some: list[K], limit_ms: float, answers: Answers[K, V]) -> None:
            response = await self.call(
                node,
                call.request,
                lambda version: call.build(version, some, int(limit_ms)),
                limit_ms,
                call.at_most,
            )
            answers.throttle_ms = getattr(response, "throttle_time_ms", 0)
            call.read(response, answers)

        meanings = {**nodes.meanings, **call.meanings}
        return await self.ask_by(keys, nodes, name_of(call.request), ask, timeout, meanings)

    async def ask_by(
        self,
        keys: Iterable[K],
        nodes: Nodes[K],
        api: str,
        ask: Ask[K, V],
        timeout: float | None = None,
        meanings: ErrorMeanings | None = None,
    ) -> dict[K, V]:
        """Like `ask`, for calls that need more than one request to a node."""
        found = await self.gather(keys, nodes, api, ask, timeout, meanings)
        return results_or_raise(found.results, found.errors, nodes.plural)

    async def gather(
        self,
        keys: Iterable[K],
        nodes: Nodes[K],
        api: str,
        ask: Ask[K, V],
        timeout: float | None = None,
        meanings: ErrorMeanings | None = None,
    ) -> Answers[K, V]:
        """Like `ask_by`, but returns the errors of keys instead of raising them."""
        wanted = list(dict.fromkeys(keys))
        limit_ms = self._whole_limit_ms(timeout)
        deadline = time.monotonic() + limit_ms / 1000
        found: Answers[K, V] = Answers(api, nodes.what)
        waiting: dict[K, KafkaError | None] = dict.fromkeys(wanted)
        located: dict[K, int] = {}
        attempt = 0

        def answers_of(node: int) -> Answers[K, V]:
            used = nodes.meanings if meanings is None else meanings
            return Answers(api, nodes.what, self.network.name_of(node), used)

        self._check_open()
        while waiting:
            parts = await self._locate(waiting, located, nodes, deadline)
            parts += await self._ask_nodes(waiting, located, ask, answers_of, deadline)
            for part in parts:
                _merge(part, found, waiting, located)
            if not waiting:
                break
            pause_ms = max(
                self._backoff.delay_ms(attempt, random.random()), *(p.throttle_ms for p in parts)
            )
            attempt += 1
            why = self._reason_to_give_up(attempt, pause_ms, limit_ms, deadline)
            if why is not None:
                for key, last in waiting.items():
                    found.errors[key] = _timed_out(found.error(key, 0), why, last)
                break
            self.metrics.meter("retry").record()
            await asyncio.sleep(pause_ms / 1000)
            self._check_open()
        found.results = {key: found.results[key] for key in wanted if key in found.results}
        found.errors = {key: found.errors[key] for key in wanted if key in found.errors}
        return found

    def _reason_to_give_up(
        self, attempt: int, pause_ms: float, limit_ms: float, deadline: float
    ) -> str | None:
        if attempt > self.config.retries:
            return f"Given up after {_times(attempt)}: retries is {self.config.retries}."
        if time.monotonic() + pause_ms / 1000 >= deadline:
            return f"Not done within {limit_ms:.0f} ms and {_times(attempt)}."
        return None

    async def _locate(
        self, keys: Iterable[K], located: dict[K, int], nodes: Nodes[K], deadline: float
    ) -> list[Answers[K, Any]]:
        """Look up the nodes of keys that are not located; returns the errors of lookups."""
        unlocated = [key for key in keys if key not in located]
        if not unlocated:
            return []
        answers = await self._find(unlocated, nodes, deadline)
        located.update(answers.results)
        answers.results = {}
        return [answers]

    async def _ask_nodes(
        self,
        keys: Iterable[K],
        located: Mapping[K, int],
        ask: Ask[K, V],
        answers_of: Callable[[int], Answers[K, V]],
        deadline: float,
    ) -> list[Answers[K, V]]:
        """Ask every node for its keys, all nodes at once."""
        by_node: dict[int, list[K]] = {}
        for key in keys:
            if key in located:
                by_node.setdefault(located[key], []).append(key)
        return await asyncio.gather(
            *(
                self._ask_node(node, some, ask, answers_of(node), deadline)
                for node, some in by_node.items()
            )
        )

    def _whole_limit_ms(self, timeout: float | None) -> float:
        if timeout is None:
            return self.config.default_api_timeout_ms
        return seconds_of(timeout) * 1000

    async def know_nodes(self, nodes: Iterable[int], timeout_ms: float) -> None:
        """Refresh the metadata once if it lacks any of the nodes, or if there is none yet."""
        known = self.network.cluster.nodes
        if not known or any(node not in known for node in nodes):
            self.network.request_update()
            await self.network.updated(timeout_ms)

    async def _find(self, keys: list[K], nodes: Nodes[K], deadline: float) -> Answers[K, int]:
        limit_ms = self._limit_ms(deadline)
        answers: Answers[K, int] = Answers("", nodes.what)
        try:
            async with asyncio.timeout((limit_ms + _GRACE_MS) / 1000):
                return await nodes.find(keys, self, limit_ms)
        except KafkaError as error:
            _fail_all(answers, keys, error)
        except TimeoutError:
            servers = ", ".join(self.config.bootstrap_servers)
            late = TimedOutError(
                message=f"No broker could be asked in time, beginning at {servers}."
            )
            _fail_all(answers, keys, late)
        return answers

    async def _ask_node(
        self, node: int, keys: list[K], ask: Ask[K, V], answers: Answers[K, V], deadline: float
    ) -> Answers[K, V]:
        limit_ms = self._limit_ms(deadline)
        answers.asked = keys
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
                await ask(node, keys, limit_ms, answers)
        except KafkaError as error:
            # The node may be gone: the next lookup needs new metadata.
            self.network.request_update()
            _fail_all(answers, [key for key in keys if not answers.mentions(key)], error)
        except TimeoutError:
            late = TimedOutError(
                message="The broker did not answer in time.",
                context={"api": answers.api, "broker": self.network.name_of(node)},
            )
            _fail_all(answers, [key for key in keys if not answers.mentions(key)], late)
        for key in keys:
            if not answers.mentions(key):
                reason = "The broker's response does not mention it."
                answers.fail(key, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        return answers

    def _limit_ms(self, deadline: float) -> float:
        """The timeout of one request."""
        left_ms = (deadline - time.monotonic()) * 1000
        return max(min(left_ms, self.config.request_timeout_ms), 1)

    async def call(
        self,
        node: int,
        request: type[Any],
        build: Callable[[int], Any],
        timeout_ms: float,
        at_most: int | None = None,
    ) -> Any:
        """Send a request to a node, at the newest version that both support."""
        connection = await self.network.connection(node)
        version = version_at(connection, request, at_most)
        return await self.send(connection, build(version), version, timeout_ms)

    async def call_with(self, node: int, request: Any, timeout_ms: float) -> Any:
        """Like `call`, for a request that is the same at every version."""
        return await self.call(node, type(request), lambda version: request, timeout_ms)

    async def send(
        self, connection: Connection, request: Any, version: int, timeout_ms: float
    ) -> Any:
        """Send a request, wait for its response, and count it in the metrics."""
        api = name_of(type(request))
        self.metrics.meter("request", api=api).record()
        started = time.monotonic()
        try:
            return await connection.send(request, version, timeout_ms)
        except KafkaError:
            self.metrics.meter("request-error", api=api).record()
            raise
        finally:
            took_ms = (time.monotonic() - started) * 1000
            self.metrics.distribution("request-latency", api=api).record(took_ms)


class AdminCalls:
    """A part of the admin client's methods."""

    _requests: AdminRequests


def _merge(
    part: Answers[K, V],
    found: Answers[K, V],
    waiting: dict[K, KafkaError | None],
    located: dict[K, int],
) -> None:
    for key in (*part.results, *part.errors):
        waiting.pop(key, None)
    found.results.update(part.results)
    found.errors.update(part.errors)
    for key, error in (part.to_retry | part.moved).items():
        # A response may name a topic by name and by id.
        if key in waiting and not (waiting[key] and isinstance(error, TimedOutError)):
            # The last error of a broker is more precise than the timeout.
            waiting[key] = error
    for key in part.moved:
        located.pop(key, None)


def _fail_all(answers: Answers[K, Any], keys: Iterable[K], error: KafkaError) -> None:
    """Add the error of a whole request: keys of a retriable one are looked up again."""
    target = answers.moved if isinstance(error, RetriableError) else answers.errors
    target.update(dict.fromkeys(keys, error))


def _timed_out(about: KafkaError, why: str, last: KafkaError | None) -> TimedOutError:
    error = TimedOutError(
        message=why if last is None else f"{why} The last error: {last}", context=about.context
    )
    error.__cause__ = last
    return error


def _times(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


def by_topic(partitions: Iterable[tuple[str, int]]) -> Mapping[str, list[int]]:
    """Partition numbers by topic, in their order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
