"""Stands between the connections of a broker under test and its handlers: faults happen here, requests are logged.

It wraps the handlers of the served APIs, so that a broker outside of tests has nothing in their way.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from typing import Any
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
from ottla.ports import Clock
from ottla.testing.error_responses import ErrorInjection, merge
from ottla.testing.faults import Fault, Faults, Meeting, Outcome
from ottla.testing.request_log import LoggedRequest, RequestLog, error_names
from ottla.testing.subjects import named_in

# These only read: their errors are put into the response, since a fetch session names few partitions in its requests.
OVERWRITTEN = frozenset({"Fetch", "Metadata"})
DELAY_CHECK_SECONDS = 0.005


class Interception:
    """What happens to the requests of one broker under test."""

    def __init__(self, faults: Faults, log: RequestLog, clock: Clock) -> None:
        self._faults = faults
        self._log = log
        self._clock = clock

    def intercept(self, apis: Mapping[int, Api[Any, Any]]) -> dict[int, Api[Any, Any]]:
        """The same APIs with faults."""
        return {key: self._intercepted(api) for key, api in apis.items()}

    def _intercepted(self, api: Api[Any, Any]) -> Api[Any, Any]:
        large = api.handle_large
        return api._replace(
            handle=self._handler(api, api.handle),
            handle_large=None if large is None else self._handler(api, large),
        )

    def _handler(self, api: Api[Any, Any], handle: Handler[Any, Any]) -> Handler[Any, Any]:
        def intercept(node: Node, request: Any, context: RequestContext) -> Any:
            if request is None:  # ApiVersions of an unknown version, which carries nothing
                return handle(node, request, context)
            named = named_in(api.name, request, _topic_names(node))
            entry = self._log.add(
                at_ms=self._clock.now_ms(),
                node_id=node.node_id,
                api=api.name,
                version=context.version,
                client_id=context.client_id,
                named=named,
            )
            began = self._clock.monotonic_seconds()
            met = self._faults.meet(Meeting(api.name, context.client_id, node.node_id, named))
            if met is None:
                return self._observe(handle(node, request, context), entry, began)
            fault, outcome = met
            entry.fault = str(outcome)
            return self._fail(node, api, handle, request, context, fault, outcome, entry, began)

        return intercept

    def _fail(
        self,
        node: Node,
        api: Api[Any, Any],
        handle: Handler[Any, Any],
        request: Any,
        context: RequestContext,
        fault: Fault,
        outcome: Outcome,
        entry: LoggedRequest,
        began: float,
    ) -> Any:
        """The reply to a request that meets a fault. What the handler does, it does now: it may read a shared buffer."""
        if outcome.drop == "before":
            entry.lost = "lost before it was handled"
            raise CloseConnectionError(f"a fault of the test lost the request ({fault})")
        refused: Any = None
        injection: ErrorInjection | None = None
        if outcome.error is None:
            reply = handle(node, request, context)
        else:
            injection = ErrorInjection(
                api.name, context.version, outcome.error, fault.target.concerns, _topic_names(node)
            )
            if api.name in OVERWRITTEN:
                reply = handle(node, request, context)
            else:
                accepted, refused = injection.refuse(request, api.response)
                injection = None
                reply = refused if accepted is None else handle(node, accepted, context)
                if accepted is None:
                    refused = None

        async def finish() -> Any:
            response = await _settled(reply)
            if response is not NO_REPLY:
                if refused is not None:
                    response = merge(api.name, response, refused)
                if injection is not None:
                    injection.overwrite(response)
            await self._pass_time(outcome.delay_seconds)
            if outcome.drop == "after":
                entry.lost = "handled, and its answer lost"
                raise CloseConnectionError(f"a fault of the test lost the answer ({fault})")
            self._answered(entry, response, began)
            return response

        return finish()

    async def _pass_time(self, seconds: float) -> None:
        """Waits by the broker's clock, which a test may stop and move."""
        end = self._clock.monotonic_seconds() + seconds
        while self._clock.monotonic_seconds() < end:
            await asyncio.sleep(DELAY_CHECK_SECONDS)

    def _observe(self, reply: Any, entry: LoggedRequest, began: float) -> Any:
        """The same reply; the log learns what it was."""
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda done: self._on_done(done, entry, began))
            return reply
        if inspect.iscoroutine(reply):
            return self._observe_coroutine(reply, entry, began)
        self._answered(entry, reply, began)
        return reply

    def _on_done(self, done: asyncio.Future[Any], entry: LoggedRequest, began: float) -> None:
        if done.cancelled() or done.exception() is not None:
            entry.lost = "given up"
        else:
            self._answered(entry, done.result(), began)

    async def _observe_coroutine(
        self, reply: Coroutine[Any, Any, Any], entry: LoggedRequest, began: float
    ) -> Any:
        try:
            response = await reply
        except BaseException:
            entry.lost = "given up"
            raise
        if isinstance(response, Detached):
            return Detached(self._observe_coroutine(response.coroutine, entry, began))
        self._answered(entry, response, began)
        return response

    def _answered(self, entry: LoggedRequest, response: Any, began: float) -> None:
        entry.seconds = self._clock.monotonic_seconds() - began
        counts: dict[int, int] = {}
        if not isinstance(response, MadeWhenSent | NoReply):
            error_counter_of(type(response))(response, counts)
        entry.errors = error_names(counts)


async def _settled(reply: Any) -> Any:
    """The response of a reply, however it is given."""
    if isinstance(reply, asyncio.Future) or inspect.iscoroutine(reply):
        reply = await reply
    if isinstance(reply, Detached):
        reply = await reply.coroutine
    return reply.make() if isinstance(reply, MadeWhenSent) else reply


def _topic_names(node: Node) -> Any:
    def name(topic_id: UUID) -> str | None:
        topic = node.cluster.catalog.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    return name
