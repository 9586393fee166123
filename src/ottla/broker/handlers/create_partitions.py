"""CreatePartitions: raises the partition count of topics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.requests.metering import partition_permit
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_topic
from ottla.broker.topics import MorePartitions
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

DIVISIONS = Divisions((Division("topics", "results", repeated=Repeated(("name",), most=2)),))

FIRST_VERSION_WITH_STRICT_QUOTA = 3


def handle(
    node: Node, request: CreatePartitionsRequest, context: RequestContext
) -> NowOrLater[CreatePartitionsResponse]:
    denied = {
        asked.name
        for asked in request.topics
        if refuse_topic(node, context.caller, Operation.ALTER, asked.name) is not None
    }
    outcomes = node.topics.add_partitions(
        [
            MorePartitions(
                asked.name,
                asked.count,
                None
                if asked.assignments is None
                else [assigned.broker_ids for assigned in asked.assignments],
            )
            for asked in request.topics
        ],
        request.validate_only,
        denied,
        partition_permit(context, FIRST_VERSION_WITH_STRICT_QUOTA),
    )
    return then(outcomes, partial(_response, request))


def _response(
    request: CreatePartitionsRequest, outcomes: Sequence[Refused | None]
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=asked.name,
                error_code=ErrorCode.NONE if refused is None else refused.error,
                error_message=None if refused is None else refused.message,
            )
            for asked, refused in zip(request.topics, outcomes, strict=True)
        ]
    )


API = serve(CreatePartitionsRequest, CreatePartitionsResponse, handle, divisions=DIVISIONS)
