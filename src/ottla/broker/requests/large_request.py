"""Requests with many elements: decoded, answered and encoded in slices of the loop's time.

A frame that is small is decoded and answered at once. Of a larger one the first few elements are decoded; if those are
all, it is answered at once as well, since most large frames are large by their records and have few elements.
"""

from __future__ import annotations

import inspect
from typing import Any, Final, NamedTuple

from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.node import Node
from ottla.broker.requests.api import Api
from ottla.broker.requests.metering import metered
from ottla.broker.requests.request import NoReply, Reply, RequestContext
from ottla.broker.requests.request_pieces import response_of
from ottla.ports import Buffer
from ottla.wire.compile import decode_in_slices
from ottla.wire.framing import frame_response_in_slices

# Frames up to here are answered at once, whatever is in them.
DIVIDED_FRAME_BYTES: Final = 1 << 10
# Frames up to here are decoded at once, but may be answered in slices.
SLICED_FRAME_BYTES: Final = 16 << 10


class Framed(NamedTuple):
    """A response that is ready to be sent."""

    parts: list[Buffer]


async def frame_in_slices(
    share: LoopShare, reply: Reply[Any], version: int, correlation_id: int
) -> Framed | NoReply:
    """The bytes of the response of a reply, when there is one."""
    response: Any = await response_of(reply)
    if isinstance(response, NoReply):
        return response
    return Framed(await share.run(frame_response_in_slices(response, version, correlation_id)))


async def answer_large(
    share: LoopShare,
    unfinished: UnfinishedFrames,
    api: Api[Any, Any],
    node: Node,
    frame: memoryview,
    position: int,
    context: RequestContext,
    correlation_id: int,
) -> Framed | NoReply:
    """The bytes of the response to a request with many elements."""
    with unfinished.whole_frame(len(frame)):
        async with share.large_request():
            request = await share.run(
                decode_in_slices(api.request, context.version, frame, position, api.max_elements)
            )
            # The request has what it needs of its frame; how long its response takes is not known.
            del frame
            is_divided = api.divisions is not None and api.divisions.of(request) is not None
            handle = api.handle_large if is_divided and api.handle_large is not None else api.handle
            reply: Any = handle(node, request, context)
            if context.meter is not None:
                reply = metered(reply, context.meter)
            del request
            if inspect.iscoroutine(reply):
                reply = await reply
    # A response that waits for other clients takes no place among the large requests.
    return await frame_in_slices(share, reply, context.version, correlation_id)
