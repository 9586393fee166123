"""Stands between the connections of a broker under test and its handlers: faults happen here, requests are logged.

It wraps the handlers of the served APIs. A broker outside of tests has nothing in their way.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

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
)
from ottla.broker.requests.response_errors import error_counter_of
from ottla.core.produce import ACKS_NONE
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
)
from ottla.testing.request_log import LoggedRequest, RequestLog, error_names
from ottla.testing.subjects import Named, named_in
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest

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
        )

    def _handler(self, api: Api[Any, Any], handle: Handler[Any, Any]) -> Handler[Any, Any]:
        def intercept(node: Node, request: Any, context: RequestContext) -> Any:
            # Of an ApiVersions in an unknown version only the header was read; the kit itself looks past all faults.
            if request is None or context.client_id == OWN_CLIENT_ID:
                return handle(node, request, context)
            named = _named_in(node, api.name, request)
            entry = self._log.add(
                at_ms=self._clock.now_ms(),
                node_id=node.node_id,
                api=api.name,
                version=context.version,
                client_id=context.client_id,
                named=named,
            )
            began = self._clock.monotonic_seconds()
            call = Call(api, handle, node, request, context, entry, began)
            partition = self._faults.partition_between(context.client_id, node.node_id)
            if partition is not None:
                entry.lost = "lost in a network partition"
                return self._lose(partition)
            met = self._faults.match(
                IncomingRequest(api.name, context.client_id, node.node_id, named)
            )
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
            raise CloseConnectionError(f"a fault of the test lost the request ({fault})")
        refused = injection = None
        if outcome.error is None:
            reply = call.run()
        else:
            injection = ErrorInjection(
                call.api.name,
                call.context.version,
                outcome.error,
                fault.target.concerns,
                _topic_name(call.node),
            )
            if call.api.name in OVERWRITTEN:
                reply = call.run(_to_be_overwritten(call.node, call.request))
            else:
                accepted, refused = injection.refuse(call.request, call.api.response)
                reply = None if accepted is None else call.run(accepted)

        async def finish() -> Any:
            response = refused if reply is None else await _settled(reply)
            if refused is not None and getattr(call.request, "acks", None) == ACKS_NONE:
                # A client that asked for no response learns of an error by the end of its connection.
                call.entry.lost = "refused, and the connection closed"
                raise CloseConnectionError(f"a fault of the test refused the request ({fault})")
            if response is not NO_REPLY and injection is not None:
                if refused is None:
                    injection.overwrite(response)
                elif reply is not None:
                    response = merge(call.api.name, response, refused)
            await wait_by(self._clock, outcome.delay_seconds)
            if outcome.drop == "after":
                call.entry.lost = "handled, and its answer lost"
                raise CloseConnectionError(f"a fault of the test lost the answer ({fault})")
            self._note_answer(call, response)
            return response

        return finish()

    async def _lose(self, partition: NetworkPartition) -> NoReply:
        """Gives no answer and keeps the connection; when the network is whole again, the connection is cut."""
        while partition.lasts:
            await asyncio.sleep(CHECK_SECONDS)
        raise CloseConnectionError("its request was lost in a network partition of the test")

    def _observe(self, call: Call) -> Any:
        """The handler's own reply; the log learns what it was."""
        reply = call.run()
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda done: self._on_done(call, done))
        elif inspect.iscoroutine(reply):
            return self._observe_coroutine(call, reply)
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
        counts: dict[int, int] = {}
        if not isinstance(response, MadeWhenSent | NoReply):
            error_counter_of(response.__class__)(response, counts)
        call.entry.answer(error_names(counts), self._clock.monotonic_seconds() - call.began)


async def _settled(reply: Any) -> Any:
    """The response of a reply, however it is given."""
    if isinstance(reply, asyncio.Future) or inspect.iscoroutine(reply):
        reply = await reply
    if isinstance(reply, Detached):
        reply = await reply.coroutine
    return reply.make() if isinstance(reply, MadeWhenSent) else reply


def _named_in(node: Node, api: str, request: Any) -> list[Named]:
    """What a request is about, with the other partitions of its fetch session, and all topics if it asks for all."""
    named = named_in(api, request, _topic_name(node))
    if isinstance(request, MetadataRequest) and request.topics is None:
        return [Named(topic=name) for name in node.cluster.catalog.topics] or named
    if isinstance(request, FetchRequest) and request.session_id:
        name_of = _topic_name(node)
        known = [
            Named(topic=target.topic or name_of(target.topic_id), partition=target.partition)
            for target in node.sessions.targets_of(request.session_id)
        ]
        return [each for each in named if each.topic is not None] + [
            each for each in known if each not in named
        ] or named
    return named


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
