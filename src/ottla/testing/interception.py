"""Stands between the connections of a broker under test and its handlers: faults happen here, requests are logged.

It wraps the handlers of the served APIs. A broker outside of tests has nothing in their way.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import weakref
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.node import Node
from ottla.broker.requests.api import Api
from ottla.broker.requests.request import (
    NO_REPLY,
    CloseConnectionError,
    Detached,
    Handler,
    MadeWhenSent,
    NoReply,
    RequestContext,
    made,
)
from ottla.broker.requests.response_errors import error_counter_of
from ottla.core.produce import ACKS_NONE
from ottla.errors import ErrorCode
from ottla.ports import Clock
from ottla.testing.clock import CHECK_SECONDS, wait_by
from ottla.testing.error_responses import ErrorInjection, merge
from ottla.testing.faults import (
    OWN_CLIENT_ID,
    Fault,
    Faults,
    IncomingRequest,
    NetworkPartition,
    Outcome,
    Target,
)
from ottla.testing.request_log import LoggedRequest, RequestLog, error_names
from ottla.testing.subjects import Concerns, Named, Names
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest

# A request of which a part is refused is handled without that part. Markers are refused together: the node that sent
# them expects an answer for each, in their order.
REFUSED_WHOLE: Final = frozenset({"WriteTxnMarkers"})
# These only read, and their errors are put into their responses: a fetch session names few partitions in its requests,
# and a Metadata request may ask for all topics.
OVERWRITTEN: Final = frozenset({"Fetch", "Metadata"})


@dataclass(frozen=True)
class Call:
    """A request at the door of its handler."""

    api: Api[Any, Any]
    handle: Handler[Any, Any]
    node: Node
    request: Any
    context: RequestContext
    entry: LoggedRequest
    began: float

    @property
    def is_from_node(self) -> bool:
        """Whether a node of the broker sent it, and not a client."""
        return self.context.caller.is_node

    def lose(self, reason: str) -> UnreachableError:
        """Cuts the connection of a client; what a node learns of it."""
        if self.is_from_node:
            return UnreachableError(reason)
        raise CloseConnectionError(reason)

    def run(self, request: Any = None) -> Any:
        """The handler's reply to the request, or to what is left of it."""
        return self.handle(self.node, request or self.request, self.context)


class Interception:
    """What happens to the requests of one broker under test."""

    def __init__(self, faults: Faults, log: RequestLog, clock: Clock) -> None:
        self._faults = faults
        self._log = log
        self._clock = clock

    def intercept(self, apis: Mapping[int, Api[Any, Any]]) -> dict[int, Api[Any, Any]]:
        """The same APIs, with faults in front of their handlers."""
        return {key: self._intercepted(api) for key, api in apis.items()}

    def _intercepted(self, api: Api[Any, Any]) -> Api[Any, Any]:
        large = api.handle_large
        return api._replace(
            handle=self._handler(api, api.handle),
            handle_large=None if large is None else self._handler(api, large),
            handle_plain=None,
        )

    def _handler(self, api: Api[Any, Any], handle: Handler[Any, Any]) -> Handler[Any, Any]:
        def intercept(node: Node, request: Any, context: RequestContext) -> Any:
            # Of an ApiVersions in an unknown version only the header was read; the kit itself looks past all faults.
            if request is None or context.client_id == OWN_CLIENT_ID:
                return handle(node, request, context)
            names = _names_in(node, api.name, request)
            entry = self._log.add(
                at_ms=self._clock.now_ms(),
                node_id=node.node_id,
                api=api.name,
                version=context.version,
                client_id=context.client_id,
                names=names,
            )
            began = self._clock.monotonic_seconds()
            call = Call(api, handle, node, request, context, entry, began)
            if not self._faults.meets_requests:
                return self._observe(call)
            # What separates nodes keeps their requests from being sent.
            partition = self._faults.partition_between(context.client_id, node.node_id)
            if partition is not None and not call.is_from_node:
                entry.lost = "lost in a network partition"
                return self._lose(partition)
            met = self._faults.match(_incoming(call, names))
            if met is None:
                return self._observe(call)
            fault, outcome = met
            entry.fault = str(outcome)
            return self._fail(call, fault, outcome)

        return intercept

    def _fail(self, call: Call, fault: Fault, outcome: Outcome) -> Any:
        """The reply to a request that meets a fault.

        The handler runs before anything is awaited: the request may be a view of the receive buffer.
        """
        if outcome.drop == "before":
            call.entry.lost = "lost before it was handled"
            return call.lose(f"a fault of the test lost the request ({fault})")
        holds_back = self._faults.holds_back
        refused = injection = None
        if outcome.error is None:
            reply = call.run()
        else:
            injection = _injection(call, outcome.error, fault.target.concerns)
            if call.api.name in OVERWRITTEN:
                reply = call.run(_to_be_overwritten(call.node, call.request))
            else:
                accepted, refused = injection.refuse(call.request, call.api.response)
                reply = None if accepted is None else call.run(accepted)

        async def begin() -> Any:
            settled = await reply if inspect.iscoroutine(reply) else reply
            # A large request that waits for a test takes no place among the large requests.
            return await finish(settled) if call.is_from_node else Detached(finish(settled))

        async def finish(settled: Any) -> Any:
            response = refused if reply is None else await _response_of(settled)
            if refused is not None and getattr(call.request, "acks", None) == ACKS_NONE:
                # A client that asked for no response learns of an error by the end of its connection.
                call.entry.lost = "refused, and the connection closed"
                raise CloseConnectionError(f"a fault of the test refused the request ({fault})")
            if response is not NO_REPLY and injection is not None:
                if refused is None:
                    injection.overwrite(response)
                elif reply is not None:
                    response = merge(call.api.name, response, refused)
            await wait_by(self._clock, lambda: outcome.delay_seconds if holds_back(fault) else 0.0)
            if outcome.drop == "after":
                call.entry.lost = "handled, and its answer lost"
                return call.lose(f"a fault of the test lost the answer ({fault})")
            self._note_answer(call, response)
            return response

        return _closing(begin(), reply)

    async def _lose(self, partition: NetworkPartition) -> Detached[NoReply]:
        """Gives no answer and keeps the connection; when the network is whole again, the connection is cut."""

        async def wait() -> NoReply:
            while self._faults.holds_back(partition):
                await asyncio.sleep(CHECK_SECONDS)
            raise CloseConnectionError("its request was lost in a network partition of the test")

        return Detached(wait())

    def _observe(self, call: Call) -> Any:
        """The handler's own reply; the log learns what it was."""
        reply = call.run()
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda done: self._on_done(call, done))
        elif inspect.iscoroutine(reply):
            return _closing(self._observe_coroutine(call, reply), reply)
        else:
            self._note_answer(call, reply)
        return reply

    def _on_done(self, call: Call, done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            call.entry.lost = "given up"
        else:
            self._note_answer(call, done.result())

    async def _observe_coroutine(self, call: Call, reply: Coroutine[Any, Any, Any]) -> Any:
        try:
            response = await reply
        except BaseException:
            call.entry.lost = "given up"
            raise
        if isinstance(response, Detached):
            return Detached(self._observe_coroutine(call, response.coroutine))
        self._note_answer(call, response)
        return response

    def _note_answer(self, call: Call, response: Any) -> None:
        if isinstance(response, MadeWhenSent):
            make = response.make
            response.make = lambda: self._noted(call, make())
        else:
            self._noted(call, response)

    def _noted(self, call: Call, response: Any) -> Any:
        counts: dict[int, int] = {}
        if not isinstance(response, NoReply):
            error_counter_of(response.__class__)(response, counts)
        call.entry.answer(error_names(counts), self._clock.monotonic_seconds() - call.began)
        return response


def _incoming(call: Call, names: Names) -> IncomingRequest:
    """The request as faults see it."""

    def has_place_for(error: ErrorCode, concerns: Concerns) -> bool:
        if call.api.name in OVERWRITTEN:
            return any(
                concerns(each) and (each.topic is not None or each.partition is not None)
                for each in names
            )
        return _injection(call, error, concerns).has_place(call.request, call.api.response)

    return IncomingRequest(
        call.api.name,
        call.context.client_id,
        call.node.node_id,
        names,
        has_place_for,
        call.is_from_node,
    )


def _injection(call: Call, error: ErrorCode, concerns: Concerns) -> ErrorInjection:
    if call.api.name in REFUSED_WHOLE:
        concerns = Target().concerns
    topic_name = _topic_name(call.node)
    return ErrorInjection(call.api.name, call.context.version, error, concerns, topic_name)


def _closing(wrapper: Coroutine[Any, Any, Any], reply: Any) -> Coroutine[Any, Any, Any]:
    """A coroutine around a handler's: one that is dropped before it begins takes the other along, without a warning."""
    if inspect.iscoroutine(reply):
        weakref.finalize(wrapper, reply.close)
    return wrapper


async def _response_of(settled: Any) -> Any:
    """The response of a reply, however it is given."""
    if isinstance(settled, asyncio.Future):
        settled = await settled
    if isinstance(settled, Detached):
        settled = await settled.coroutine
    return await made(settled) if isinstance(settled, MadeWhenSent) else settled


def _names_in(node: Node, api: str, request: Any) -> Names:
    """What a request is about, with the other partitions of its fetch session, and all topics if it asks for all."""
    if isinstance(request, MetadataRequest) and request.topics is None:
        return _NamesOfAllTopics(node, request)
    if isinstance(request, FetchRequest) and request.session_id:
        return _NamesOfSession(node, request)
    return Names(api, request, _topic_name(node))


class _NamesOfAllTopics(Names):
    """The topics that there are, for a request that asks for all."""

    def __init__(self, node: Node, request: MetadataRequest) -> None:
        super().__init__("Metadata", request, _topic_name(node))
        self._topics = node.cluster.catalog.topics

    def __iter__(self) -> Iterator[Named]:
        if not self._topics:
            yield Named()
        for name in self._topics:
            yield Named(topic=name)

    @property
    def count(self) -> int:
        return len(self._topics) or 1

    @property
    def topics(self) -> Iterator[str]:
        return iter(self._topics)


class _NamesOfSession(Names):
    """The partitions of a fetch session, and those that the request adds to it or takes out of it."""

    def __init__(self, node: Node, request: FetchRequest) -> None:
        super().__init__("Fetch", request, _topic_name(node))
        self._targets = node.sessions.targets_of(request.session_id)

    def __iter__(self) -> Iterator[Named]:
        left_out = {
            (self._name(topic.topic, topic.topic_id), partition)
            for topic in self.request.forgotten_topics_data
            for partition in topic.partitions
        }
        is_empty = True
        for each in super().__iter__():
            if each.partition is not None:
                left_out.add((each.topic, each.partition))
                is_empty = False
                yield each
        for target in self._targets:
            topic = self._name(target.topic, target.topic_id)
            if (topic, target.partition) not in left_out:
                is_empty = False
                yield Named(topic=topic, partition=target.partition)
        if is_empty:
            yield Named()

    def _name(self, topic: str, topic_id: UUID) -> str | None:
        return topic or self.topic_name(topic_id)

    @property
    def count(self) -> int:
        return super().count + len(self._targets)

    @property
    def topics(self) -> Iterator[str]:
        yield from super().topics
        for target in self._targets:
            topic = self._name(target.topic, target.topic_id)
            if topic is not None:
                yield topic


def _to_be_overwritten(node: Node, request: Any) -> Any:
    """A fetch that is to fail waits for no records, and its response mentions every partition of its session."""
    if not isinstance(request, FetchRequest):
        return request
    for target in node.sessions.targets_of(request.session_id):
        target.told_high_watermark = -1
    request = copy.copy(request)
    request.max_wait_ms = 0
    return request


def _topic_name(node: Node) -> Any:
    def name(topic_id: UUID) -> str | None:
        topic = node.cluster.catalog.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    return name
