"""Fetch: returns record batches of partitions, at once or when there are enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from uuid import UUID

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.partitions.fetch_read import (
    PARTITIONS_AT_ONCE,
    PARTITIONS_PER_STEP,
    Fetched,
    FetchRead,
    FetchWait,
    read_all,
    read_in_steps,
    steps_of,
)
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import (
    Detached,
    MadeWhenSent,
    NotMadeError,
    Reply,
    RequestContext,
)
from ottla.broker.security.authorization import refuse_cluster, refuse_topic
from ottla.broker.security.caller import Caller
from ottla.core.fetch import (
    FIRST_VERSION_WITH_ZSTD,
    FetchLimits,
    check_codec,
    fetch_limits,
    must_wait,
)
from ottla.core.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchTarget,
    Key,
)
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.ports import monotonic_ms
from ottla.wire.declare import info_of
from ottla.wire.framing import SIZE_BYTES, frame_response
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

FIRST_VERSION_WITH_TOPIC_IDS = 13
# Older versions have the leader, but no addresses: clients would take it for a broker that they know (KIP-951).
FIRST_VERSION_WITH_LEADERS = 16
Targets = list[tuple[Key, FetchTarget]]
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(node: Node, request: FetchRequest, context: RequestContext) -> Reply[FetchResponse]:
    if _count(request) > PARTITIONS_AT_ONCE:
        return _handle_many(node, request, context)
    targets: Targets = []
    for topic in request.topics:
        _add_targets(targets, topic, topic.partitions, context.version)
    opened = _open_session(node, request, context, targets)
    if isinstance(opened, Refused):
        return FetchResponse(error_code=opened.error, responses=[])
    limits, replica_id = _limits(node, request, context), _replica_id(request)
    if len(opened.targets) > PARTITIONS_AT_ONCE:
        return _fetch_many(node, opened, limits, context, replica_id)
    if not node.authorizer.is_open:
        _deny_unreadable(node, opened, context.caller, replica_id)

    def respond(read: FetchRead) -> FetchResponse:
        told = _told(read) if context.meter is not None else []
        builder = _ResponseBuilder(node, opened, context, limits)
        builder.add(read.partitions)
        return _within_quota(node, opened, context, builder.response(), told)

    read = read_all(node, opened, limits)
    if not _waits(read, opened, limits):
        return respond(read)
    wait = FetchWait(node, opened, limits, limits.min_bytes - read.size_bytes)
    if read.pending:
        wait.parked.wait_for(read.pending)
    acls = node.cluster.catalog.acls
    acl_version = acls.version

    def respond_late() -> FetchResponse:
        if acls.version != acl_version and not node.authorizer.is_open:
            # The client may have lost the right while it waited.
            _deny_unreadable(node, opened, context.caller, replica_id)
        late = read_all(node, opened, limits)
        if wait.goes_on(late):
            raise NotMadeError(wait.parked.over)
        return respond(late)

    return _after(wait.parked.over, respond_late)


async def _handle_many(
    node: Node, request: FetchRequest, context: RequestContext
) -> FetchResponse | Detached[FetchResponse]:
    """The response, or a coroutine that waits for it and does not keep the request, which may be large."""
    targets = await node.cluster.share.run(_targets_in_steps(request, context.version))
    opened = _open_session(node, request, context, targets)
    if isinstance(opened, Refused):
        return FetchResponse(error_code=opened.error, responses=[])
    limits = _limits(node, request, context)
    return Detached(_fetch_many(node, opened, limits, context, _replica_id(request)))


async def _fetch_many(
    node: Node,
    opened: FetchContext,
    limits: FetchLimits,
    context: RequestContext,
    replica_id: int,
) -> FetchResponse:
    """As `handle`, in slices; it is parked first, so that it misses no append between two slices."""
    share = node.cluster.share
    acls = node.cluster.catalog.acls
    acl_version = acls.version
    if not node.authorizer.is_open:
        await share.run(_deny_in_steps(node, opened, context.caller, replica_id))
    wait = FetchWait(node, opened, limits, limits.min_bytes)
    try:
        read = await share.run(read_in_steps(node, opened, limits))
        is_to_wait = _waits(read, opened, limits)
        if is_to_wait:
            wait.parked.has_read(read.size_bytes)
            wait.parked.wait_for(read.pending)
        while is_to_wait:
            await wait.parked.over
            if acls.version != acl_version and not node.authorizer.is_open:
                await share.run(_deny_in_steps(node, opened, context.caller, replica_id))
            read = await share.run(read_in_steps(node, opened, limits))
            is_to_wait = wait.goes_on(read)
    finally:
        wait.parked.over.cancel()
    told = _told(read) if context.meter is not None else []
    builder = _ResponseBuilder(node, opened, context, limits)
    await share.run(_add_in_steps(builder, read))
    return _within_quota(node, opened, context, builder.response(), told)


def _replica_id(request: FetchRequest) -> int:
    """The id of the node that asks; negative for consumers."""
    return max(request.replica_id, request.replica_state.replica_id)


def _deny_unreadable(node: Node, opened: FetchContext, caller: Caller, replica_id: int) -> None:
    for _ in _deny_in_steps(node, opened, caller, replica_id):
        pass


def _deny_in_steps(
    node: Node, opened: FetchContext, caller: Caller, replica_id: int
) -> Generator[None, None, None]:
    """Finds the topics that the client may not read; a follower may read all of them, or none."""
    is_follower = replica_id >= 0
    if is_follower and refuse_cluster(node, caller, Operation.CLUSTER_ACTION) is None:
        return
    topics_by_id = node.cluster.catalog.topics_by_id
    readable: dict[str | UUID, bool] = {}
    for number, (key, _) in enumerate(opened.targets):
        if not number % PARTITIONS_PER_STEP:
            yield
        topic_key = key[0]
        if topic_key in readable:
            continue
        if isinstance(topic_key, str):
            name = topic_key
        else:
            known = topics_by_id.get(topic_key)
            name = "" if known is None else known.name
        # The answer about an unknown topic id tells a consumer nothing.
        readable[topic_key] = not is_follower and (
            not name or refuse_topic(node, caller, Operation.READ, name) is None
        )
    opened.denied = {topic_key for topic_key, is_readable in readable.items() if not is_readable}


def _count(request: FetchRequest) -> int:
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    return count


def _limits(node: Node, request: FetchRequest, context: RequestContext) -> FetchLimits:
    most = request.max_bytes
    if context.meter is not None:
        most = min(most, context.meter.max_fetch_bytes)
    return fetch_limits(
        most,
        request.min_bytes,
        request.max_wait_ms,
        request.isolation_level,
        node.options.config.fetch_max_bytes,
    )


def _waits(read: FetchRead, opened: FetchContext, limits: FetchLimits) -> bool:
    return (
        not read.is_final
        and bool(opened.targets)
        and must_wait(limits, read.size_bytes, bool(read.pending))
    )


def _add_targets(
    targets: Targets, topic: FetchTopic, partitions: Sequence[FetchPartition], version: int
) -> None:
    uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    topic_key = topic.topic_id if uses_ids else topic.topic
    for asked in partitions:
        target = FetchTarget(
            topic.topic,
            topic.topic_id,
            asked.partition,
            asked.fetch_offset,
            asked.partition_max_bytes,
            asked.current_leader_epoch,
            asked.last_fetched_epoch,
        )
        targets.append(((topic_key, asked.partition), target))


def _targets_in_steps(request: FetchRequest, version: int) -> Generator[None, None, Targets]:
    targets: Targets = []
    for topic in request.topics:
        for partitions in steps_of(topic.partitions):
            _add_targets(targets, topic, partitions, version)
            yield
    return targets


def _open_session(
    node: Node,
    request: FetchRequest,
    context: RequestContext,
    targets: Targets,
) -> FetchContext | Refused:
    uses_ids = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    forgotten: list[Key] = [
        (topic.topic_id if uses_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    sessions = node.sessions
    fresh_id = NO_SESSION
    if request.session_epoch == INITIAL_EPOCH:
        fresh_id = node.cluster.ids.session_id()
        while fresh_id in sessions:
            fresh_id = node.cluster.ids.session_id()
    return sessions.open(
        request.session_id,
        request.session_epoch,
        targets,
        forgotten,
        uses_ids,
        monotonic_ms(node.cluster.clock),
        fresh_id,
        context.caller.peer,
    )


def _after(
    over: asyncio.Future[None], respond: Callable[[], FetchResponse]
) -> asyncio.Future[MadeWhenSent[FetchResponse]]:
    """A function that makes the response, when the wait is over; a connection that cancels it ends the wait."""
    answer: asyncio.Future[MadeWhenSent[FetchResponse]] = asyncio.get_running_loop().create_future()

    def forward(done: asyncio.Future[None]) -> None:
        if not done.cancelled() and not answer.done():
            answer.set_result(MadeWhenSent(respond))

    over.add_done_callback(forward)
    answer.add_done_callback(lambda done: over.cancel() if done.cancelled() else None)
    return answer


Told = list[tuple[FetchTarget, int, int]]


def _told(read: FetchRead) -> Told:
    """What the responses before this one said about partitions."""
    return [
        (one.target, one.target.told_high_watermark, one.target.told_start_offset)
        for one in read.partitions
    ]


def _within_quota(
    node: Node, opened: FetchContext, context: RequestContext, response: FetchResponse, told: Told
) -> FetchResponse:
    """The response, or one without records if the consumer has to wait: it fetches them again then (KIP-219).

    The session does not change by a response that the client does not get, and one that begins with it does not begin.
    """
    if context.meter is None:
        return response
    if context.meter.charge_fetch(_counted_bytes(response, context.version)):
        return response
    for target, high_watermark, start_offset in told:
        target.told_high_watermark, target.told_start_offset = high_watermark, start_offset
    node.sessions.discard(opened)
    session_id = opened.session_id if opened.is_incremental else NO_SESSION
    return FetchResponse(session_id=session_id, responses=[])


def _counted_bytes(response: FetchResponse, version: int) -> int:
    """The size of a response as Kafka counts it: without the size of the frame and the tags of its header."""
    flexible = version >= info_of(FetchResponse).flexible_since
    return sum(map(len, frame_response(response, version, 0))) - SIZE_BYTES - flexible


class _ResponseBuilder:
    """A response, to which partitions are added."""

    def __init__(
        self, node: Node, session: FetchContext, context: RequestContext, limits: FetchLimits
    ) -> None:
        self._node = node
        self._session = session
        self._context = context
        self._is_committed = limits.is_committed
        self._topics: dict[object, FetchableTopicResponse] = {}
        self._leaders: dict[int, None] = {}

    def add(self, partitions: Sequence[Fetched]) -> None:
        """Adds the partitions that the response has to mention."""
        node, session, version = self._node, self._session, self._context.version
        topics = self._topics
        for one in partitions:
            has_records = len(one.records) > 0
            is_changed = one.target.record_response(
                one.refused is not None,
                one.bounds.high_watermark,
                one.bounds.start_offset,
                has_records,
            )
            if not session.mentions(one.key, has_records, is_changed or one.diverging is not None):
                continue
            topic = topics.get(one.key[0])
            if topic is None:
                topic = topics[one.key[0]] = FetchableTopicResponse(
                    topic=one.target.topic, topic_id=one.target.topic_id, partitions=[]
                )
            data = _partition(node, one, version, self._is_committed)
            if one.refused is not None and _needs_leader(one.refused, version):
                data.current_leader = _leader(node, one)
                self._leaders[data.current_leader.leader_id] = None
            topic.partitions.append(data)

    def response(self) -> FetchResponse:
        response = FetchResponse(
            session_id=self._session.session_id, responses=list(self._topics.values())
        )
        if self._leaders:
            cluster = self._node.cluster
            response.node_endpoints = [
                NodeEndpoint(
                    node_id=node_id,
                    host=address.host,
                    port=address.port,
                    rack=cluster.rack_of(node_id),
                )
                for node_id, address in cluster.addresses_for(self._context.caller)
                if node_id in self._leaders
            ]
        return response


def _add_in_steps(builder: _ResponseBuilder, read: FetchRead) -> Generator[None, None, None]:
    for partitions in steps_of(read.partitions):
        builder.add(partitions)
        yield


def _partition(node: Node, one: Fetched, version: int, is_committed: bool) -> PartitionData:
    data = PartitionData(
        partition_index=one.target.partition,
        error_code=error_of(one.refused),
        high_watermark=one.bounds.high_watermark,
        last_stable_offset=one.bounds.last_stable_offset,
        log_start_offset=one.bounds.start_offset,
        aborted_transactions=_aborted(one) if is_committed else None,
        records=one.records,
    )
    if one.diverging is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=one.diverging.epoch, end_offset=one.diverging.end_offset
        )
    if version < FIRST_VERSION_WITH_ZSTD and one.records:
        refused = _check_codec(node, one, version)
        if refused is not None:
            data.error_code, data.records = refused.error, b""
    return data


def _needs_leader(refused: Refused, version: int) -> bool:
    return refused.error in _LEADER_ERRORS and version >= FIRST_VERSION_WITH_LEADERS


def _leader(node: Node, one: Fetched) -> LeaderIdAndEpoch:
    """The leader, for a client that has asked another node (KIP-951)."""
    catalog = node.cluster.catalog
    topic = catalog.topics.get(one.target.topic) or catalog.topics_by_id.get(one.target.topic_id)
    if topic is None:
        return LeaderIdAndEpoch()
    led = node.cluster.led_now(topic, one.target.partition)
    return LeaderIdAndEpoch(leader_id=led.leader_id, leader_epoch=led.epoch)


def _aborted(one: Fetched) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=span.producer_id, first_offset=span.first_offset)
        for span in one.aborted
    ]


def _check_codec(node: Node, one: Fetched, version: int) -> Refused | None:
    topic = node.cluster.catalog.topics.get(one.target.topic)
    return (
        None
        if topic is None
        else check_codec(version, node.options.topic_config(topic).compression_type)
    )


API = serve(FetchRequest, FetchResponse, handle, max_elements=1 << 16)
