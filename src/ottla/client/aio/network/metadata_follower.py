"""Keeps the metadata of the cluster current: asks for it, wakes the tasks that wait for it, rebootstraps."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

from ottla.client.aio.network.peer_pool import PeerPool
from ottla.client.state.metadata import ClusterMetadata, MetadataState, Topic
from ottla.config.client import ClientConfig
from ottla.errors import ErrorCode, KafkaError, RetriableError, TimedOutError, exception_for
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

log = logging.getLogger("ottla.client")

REBOOTSTRAP = "rebootstrap"


class MetadataObserver(Protocol):
    """Is called after a request for metadata, before waiting tasks and callbacks are."""

    def metadata_received(self) -> None: ...
    def rebootstrap(self) -> None: ...


class MetadataFollower:
    """A task that requests metadata when `MetadataState` says that it is due."""

    def __init__(
        self,
        config: ClientConfig,
        state: MetadataState,
        peers: PeerPool,
        observer: MetadataObserver,
    ) -> None:
        self.state = state
        self.last_error: KafkaError | None = None
        """Why the last request failed; None if it succeeded."""
        self.failure: KafkaError | None = None
        """Why there is no metadata where asking again will not help, such as refused credentials."""
        self.on_update: list[Callable[[ClusterMetadata], None]] = []
        """Called after each answer, and after a failure that is not retriable."""
        self._config = config
        self._peers = peers
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._unanswered_since_ms: float | None = None
        self._is_closed = False
        self._wake = asyncio.Event()
        self._next_answer: asyncio.Future[None] = self._loop.create_future()
        self._task = self._loop.create_task(self._follow())

    # The topics to follow

    def want_topic(self, name: str) -> None:
        """Follow a topic."""
        self.state.want(name, self._now_ms())
        self._wake.set()

    def want_only(self, names: list[str]) -> None:
        """Follow these topics and no others."""
        self.state.want_only(names, self._now_ms())
        self._wake.set()

    def want_names_of(self, topic_ids: Iterable[UUID]) -> None:
        """Find the names of these topics, and of no others; then follow them."""
        self.state.want_names_of(topic_ids)
        self._wake.set()

    def want_all_topics(self) -> None:
        """Follow all topics."""
        self.state.want_all()
        self._wake.set()

    def request_update(self) -> None:
        """Request metadata as soon as the backoff allows."""
        self.state.request_update()
        self._wake.set()

    # Waiting

    async def updated(self, timeout_ms: float) -> None:
        """Wait for the next answer to a metadata request; TimedOutError if none comes."""
        if self._is_closed:
            raise _closed()
        if self.failure is not None:
            raise self.failure
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the answer.
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.shield(self._next_answer)
        except TimeoutError:
            message = f"No metadata came within {round(timeout_ms)} ms. {self._brokers_asked()}"
            raise TimedOutError(message=message, context={"api": "Metadata"}) from None

    async def topic(self, name: str, timeout_ms: float) -> Topic:
        """The topic, once it is known."""
        deadline = self._loop.time() + timeout_ms / 1000
        self.want_topic(name)
        first_version = self.state.version
        while True:
            cluster = self.state.cluster
            found = cluster.topics.get(name)
            if found is not None:
                return found
            error = cluster.errors.get(name)
            is_old = self.state.version == first_version
            if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED and is_old:
                # As in Kafka's client: somebody may have granted the right since the last answer.
                self.request_update()
            elif error is not None and not error.retriable:
                raise cluster.error_of(name)
            left_ms = (deadline - self._loop.time()) * 1000
            if left_ms <= 0:
                raise self.no_topic(name, timeout_ms)
            try:
                await self.updated(left_ms)
            except TimedOutError:
                raise self.no_topic(name, timeout_ms) from None

    def no_topic(self, name: str, timeout_ms: float) -> KafkaError:
        """The error for a topic that is still unknown after the timeout."""
        error = self.state.cluster.errors.get(name)
        if error is None:
            why = f"Topic {name} is not known after {round(timeout_ms)} ms."
        elif error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            why = f"Topic {name} does not exist after {round(timeout_ms)} ms ({error.name}): create it."
        else:
            why = f"Topic {name} is not there after {round(timeout_ms)} ms: {error.name}."
        if self.state.version == 0 or self.last_error is not None:
            why += f" {self._brokers_asked()}"
        return TimedOutError(message=why, context={"api": "Metadata", "topic": name})

    def _brokers_asked(self) -> str:
        servers = ", ".join(self._config.bootstrap_servers)
        why = "check that one runs there." if self.last_error is None else self.last_error.message
        return f"The brokers asked are {servers}: {why}"

    # Requests

    async def _follow(self) -> None:
        while not self._is_closed:
            wait_ms = self.state.due_in_ms(self._now_ms())
            if wait_ms > 0:
                self._wake.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()
                continue
            try:
                await self._refresh()
            except Exception:
                # A bug: the task goes on, or callers would wait for metadata for ever.
                log.exception("the answer to a metadata request could not be applied")
                self.state.failed(self._now_ms(), random.random())

    async def _refresh(self) -> None:
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = self._now_ms()
        request = self.state.next_request(self._now_ms())
        try:
            response = await self._ask(request)
        except KafkaError as error:
            self._request_failed(error)
            return
        self.failure = self.last_error = None
        self._unanswered_since_ms = None
        for topic, why in self.state.apply(request, response, self._now_ms(), random.random()):
            log.warning("%s: topic %s: %s", self._config.client_id, topic, why)
        self._observer.metadata_received()
        self.publish()

    async def _ask(self, request: MetadataRequest) -> MetadataResponse:
        node_id = await self._peers.any_node()
        response: MetadataResponse = await self._peers.call(node_id, request)
        broker = self._peers.name_of(node_id)
        if response.error_code:
            raise exception_for(response.error_code, None, api="Metadata", broker=broker)
        if not response.brokers:
            # A broker that has just started. With its answer the client would forget all other brokers.
            why = f"{broker} knows no brokers yet."
            raise exception_for(ErrorCode.LEADER_NOT_AVAILABLE, why, api="Metadata")
        return response

    def _request_failed(self, error: KafkaError) -> None:
        """Ask again later, from the bootstrap servers if no known broker has answered for long (KIP-899, KIP-1102)."""
        now_ms = self._now_ms()
        self.last_error = error
        self.state.failed(now_ms, random.random())
        log.debug("no metadata: %s", error)
        if self._config.metadata_recovery_strategy == REBOOTSTRAP:
            assert self._unanswered_since_ms is not None
            limit_ms = self._config.metadata_recovery_rebootstrap_trigger_ms
            is_requested = error.code is ErrorCode.REBOOTSTRAP_REQUIRED
            if is_requested or now_ms - self._unanswered_since_ms >= limit_ms:
                self._observer.rebootstrap()
                if is_requested:
                    return
        if not isinstance(error, RetriableError):
            self._fail(error)

    # Outcomes

    def publish(self) -> None:
        """Wake the tasks that wait for metadata, and run the callbacks."""
        answer, self._next_answer = self._next_answer, self._loop.create_future()
        answer.set_result(None)
        self._run_callbacks()

    def _fail(self, error: KafkaError) -> None:
        """Asking again will not help: waiting tasks get the error."""
        self.failure = error
        answer, self._next_answer = self._next_answer, self._loop.create_future()
        answer.set_exception(error)
        answer.exception()
        if not self._is_closed:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        for callback in list(self.on_update):
            try:
                callback(self.state.cluster)
            except Exception:
                log.exception("a callback for metadata failed")

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    async def close(self) -> None:
        """Stop asking; tasks that wait for metadata get an error."""
        self._is_closed = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._fail(_closed())


def _closed() -> KafkaError:
    return exception_for(ErrorCode.NETWORK_EXCEPTION, "The client was closed.")
