"""How a call reaches the nodes that can answer it: batched by node, with retries until it has to end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from ottla.client.aio.admin.results import (
    Answers,
    K,
    V,
    Verdicts,
    results_or_raise,
)
from ottla.client.aio.network.brokers import Network
from ottla.client.aio.network.connection import Connection
from ottla.client.arguments import seconds_of
from ottla.client.metrics.kafka_metrics import Metrics
from ottla.client.state.backoff import Backoff
from ottla.config.admin import AdminConfig
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
    RetriableError,
    TimedOutError,
)
from ottla.wire.declare import info_of

# Who has a limit of its own, and more to say when it is over, goes first.
_GRACE_MS = 50

# A TopicPartition, or a plain tuple: the keys of a Mapping have to be of one type.
Partition = TypeVar("Partition", bound=tuple[str, int])
P = ParamSpec("P")
R = TypeVar("R")


class Place(Protocol[K]):
    """Which node is to be asked about a thing: any, the controller, a coordinator, a leader."""

    what: str
    """What a thing is called in errors: topic, group, partition …"""
    plural: str
    verdicts: Verdicts

    async def find(self, keys: Sequence[K], calls: Calls, timeout_ms: float) -> Answers[K, int]:
        """The node of each thing; called again for those that moved."""
        ...


Ask = Callable[[int, list[K], float, Answers[K, V]], Awaitable[None]]
"""Asks a node about some things: node id, things, how long it may take, where the answers go."""


@dataclass(frozen=True)
class Question(Generic[K, V]):
    """One API: how its request is made and what its response says."""

    request: type[Any]
    build: Callable[[int, list[K], int], Any]
    """The request at a version, about some things, with a time limit in ms."""
    read: Callable[[Any, Answers[K, V]], None]
    at_most: int | None = None
    verdicts: Verdicts = field(default_factory=dict)
    """What codes mean in this API, beyond what they mean at its place."""


def name_of(request: type[Any]) -> str:
    """The name of an API as Kafka has it."""
    return info_of(request).name.removesuffix("Request")


def version_at(connection: Connection, request: type[Any], at_most: int | None = None) -> int:
    """The newest version that both speak; a broker without the API fails this call, not the client."""
    try:
        return connection.version_of(request, at_most)
    except FatalError as error:
        raise AbortableError(error.code, error.message, error.context) from None


def timeout_in_seconds(
    method: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """A call that says what to write instead of `timeout_ms`, which it had once, as other clients have it."""

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


class Calls:
    """The part of the admin client that all its calls share."""

    def __init__(self, network: Network, config: AdminConfig) -> None:
        self._network = network
        self._config = config
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._metrics = Metrics()
        self._closed = False

    @property
    def network(self) -> Network:
        """The connections; for the places."""
        return self._network

    async def ask(
        self,
        keys: Iterable[K],
        place: Place[K],
        question: Question[K, V],
        timeout: float | None = None,
    ) -> dict[K, V]:
        """One request to each node that is to be asked, and again for what failed in passing."""

        async def ask(node: int, some: list[K], limit_ms: float, answers: Answers[K, V]) -> None:
            response = await self.call(
                node,
                question.request,
                lambda version: question.build(version, some, int(limit_ms)),
                limit_ms,
                question.at_most,
            )
            answers.throttle_ms = getattr(response, "throttle_time_ms", 0)
            question.read(response, answers)

        api = name_of(question.request)
        verdicts = {**place.verdicts, **question.verdicts}
        return await self.ask_by(keys, place, api, ask, timeout, verdicts)

    async def ask_by(
        self,
        keys: Iterable[K],
        place: Place[K],
        api: str,
        ask: Ask[K, V],
        timeout: float | None = None,
        verdicts: Verdicts | None = None,
    ) -> dict[K, V]:
        """Like `ask`, for calls that need more than one request to a node."""
        found = await self.gather(keys, place, api, ask, timeout, verdicts)
        return results_or_raise(found.results, found.errors, place.plural)

    async def gather(
        self,
        keys: Iterable[K],
        place: Place[K],
        api: str,
        ask: Ask[K, V],
        timeout: float | None = None,
        verdicts: Verdicts | None = None,
    ) -> Answers[K, V]:
        """Asks until everything is answered for good or the time is over; raises for no single thing."""
        wanted = list(dict.fromkeys(keys))
        limit_ms = self._whole_limit_ms(timeout)
        deadline = time.monotonic() + limit_ms / 1000
        found: Answers[K, V] = Answers(api, place.what)
        waiting: dict[K, KafkaError | None] = dict.fromkeys(wanted)
        nodes: dict[K, int] = {}
        attempt = 0
        self._check_open()
        while waiting:
            parts: list[Answers[K, Any]] = []
            if unplaced := [key for key in waiting if key not in nodes]:
                placed = await self._find(unplaced, place, deadline)
                nodes.update(placed.results)
                placed.results = {}
                parts.append(placed)
            by_node: dict[int, list[K]] = {}
            for key in waiting:
                if key in nodes:
                    by_node.setdefault(nodes[key], []).append(key)
            asked = verdicts if verdicts is not None else place.verdicts
            parts += await asyncio.gather(
                *(
                    self._ask_node(
                        node, some, ask, Answers(api, place.what, self._name(node), asked), deadline
                    )
                    for node, some in by_node.items()
                )
            )
            for part in parts:
                _merge(part, found, waiting, nodes)
            if not waiting:
                break
            pause_ms = max(
                self._backoff.delay_ms(attempt, random.random()), *(p.throttle_ms for p in parts)
            )
            attempt += 1
            why = None
            if attempt > self._config.retries:
                why = f"Given up after {_times(attempt)}: retries is {self._config.retries}."
            elif time.monotonic() + pause_ms / 1000 >= deadline:
                why = f"Not done within {limit_ms:.0f} ms and {_times(attempt)}."
            if why is not None:
                for key, last in waiting.items():
                    found.errors[key] = _timed_out(found.error(key, 0), why, last)
                break
            self._metrics.meter("retry").record()
            await asyncio.sleep(pause_ms / 1000)
            self._check_open()
        found.results = {key: found.results[key] for key in wanted if key in found.results}
        found.errors = {key: found.errors[key] for key in wanted if key in found.errors}
        return found

    def _whole_limit_ms(self, timeout: float | None) -> float:
        if timeout is None:
            return self._config.default_api_timeout_ms
        return seconds_of(timeout) * 1000

    async def know_nodes(self, nodes: Iterable[int], timeout_ms: float) -> None:
        """Refreshes the metadata once if there is none or it lacks any of the nodes."""
        known = self._network.cluster.nodes
        if not known or any(node not in known for node in nodes):
            self._network.request_update()
            await self._network.updated(timeout_ms)

    async def _find(self, keys: list[K], place: Place[K], deadline: float) -> Answers[K, int]:
        limit_ms = self._limit_ms(deadline)
        answers: Answers[K, int] = Answers("", place.what)
        try:
            async with asyncio.timeout((limit_ms + _GRACE_MS) / 1000):
                return await place.find(keys, self, limit_ms)
        except KafkaError as error:
            _refuse_all(answers, keys, error)
        except TimeoutError:
            servers = ", ".join(self._config.bootstrap_servers)
            late = TimedOutError(
                message=f"No broker could be asked in time, beginning at {servers}."
            )
            _refuse_all(answers, keys, late)
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
            # The node may have gone: the next look should not find it again.
            self._network.request_update()
            _refuse_all(answers, [key for key in keys if not answers.mentions(key)], error)
        except TimeoutError:
            late = TimedOutError(
                message="The broker did not answer in time.",
                context={"api": answers.api, "broker": self._name(node)},
            )
            _refuse_all(answers, [key for key in keys if not answers.mentions(key)], late)
        for key in keys:
            if not answers.mentions(key):
                reason = "The broker's answer does not mention it."
                answers.refuse(key, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        return answers

    def _name(self, node: int) -> str:
        return self._network.name_of(node)

    def _limit_ms(self, deadline: float) -> float:
        """How long one request may take."""
        left_ms = (deadline - time.monotonic()) * 1000
        return max(min(left_ms, self._config.request_timeout_ms), 1)

    async def call(
        self,
        node: int,
        request: type[Any],
        build: Callable[[int], Any],
        timeout_ms: float,
        at_most: int | None = None,
    ) -> Any:
        """One request to one node, at the newest version that both speak."""
        connection = await self._network.connection(node)
        version = version_at(connection, request, at_most)
        return await self.send(connection, build(version), version, timeout_ms)

    async def call_with(self, node: int, request: Any, timeout_ms: float) -> Any:
        """As `call`, for requests that are the same at every version."""
        return await self.call(node, type(request), lambda version: request, timeout_ms)

    async def send(
        self, connection: Connection, request: Any, version: int, timeout_ms: float
    ) -> Any:
        """Sends a request and waits for its answer, and counts it."""
        api = name_of(type(request))
        self._metrics.meter("request", api=api).record()
        started = time.monotonic()
        try:
            return await connection.send(request, version, timeout_ms)
        except KafkaError:
            self._metrics.meter("request-error", api=api).record()
            raise
        finally:
            took_ms = (time.monotonic() - started) * 1000
            self._metrics.distribution("request-latency", api=api).record(took_ms)

    def metrics(self) -> dict[str, float]:
        """Counts, rates and latencies of the requests to each API, as `request-total{api=Metadata}`."""
        return self._metrics.snapshot()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the admin client is closed")


def _merge(
    part: Answers[K, V],
    found: Answers[K, V],
    waiting: dict[K, KafkaError | None],
    nodes: dict[K, int],
) -> None:
    for key in (*part.results, *part.errors):
        waiting.pop(key, None)
    found.results.update(part.results)
    found.errors.update(part.errors)
    for key, error in (part.again | part.moved).items():
        # An answer may name a thing in more ways than it was asked for.
        if key in waiting and not (waiting[key] and isinstance(error, TimedOutError)):
            # What was answered before the time ran out says more than that it did.
            waiting[key] = error
    for key in part.moved:
        nodes.pop(key, None)


def _refuse_all(answers: Answers[K, Any], keys: Iterable[K], error: KafkaError) -> None:
    """Notes that a request failed: another node may be the right one now."""
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
    """Partition numbers by topic, in the order in which they come."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
