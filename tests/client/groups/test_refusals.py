"""What members and commits do when the coordinator answers with an error, as Kafka's client does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from tests.client.groups.driving import Driver, create_topic, new_group, run, until

from ottla import Broker
from ottla.client.aio.network.connection import Connection
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.membership import MemberState
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    FatalError,
    KafkaError,
    TimedOutError,
)
from ottla.model import TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Answer = Callable[[Any], Any]

# The coordinator has moved, or is not ready.
NO_COORDINATOR = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def join_refusal(code: ErrorCode) -> Answer:
    return lambda request: JoinGroupResponse(
        error_code=code, protocol_name="", leader="", member_id=request.member_id, members=[]
    )


def sync_refusal(code: ErrorCode) -> Answer:
    return lambda request: SyncGroupResponse(error_code=code, assignment=b"")


def heartbeat_refusal(code: ErrorCode) -> Answer:
    return lambda request: HeartbeatResponse(error_code=code)


def commit_refusal(code: ErrorCode) -> Answer:
    def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def fetch_refusal(code: ErrorCode) -> Answer:
    def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
        group = OffsetFetchResponseGroup(
            group_id=request.groups[0].group_id, topics=[], error_code=code
        )
        return OffsetFetchResponse(groups=[group])

    return answer


class Refusals:
    """Answers some requests in the broker's place; none of them reaches it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planned: dict[type, list[Answer]] = {}
        self.count = 0
        send = Connection.send

        def refuse(
            connection: Connection, request: Any, version: int, timeout_ms: float | None = None
        ) -> asyncio.Future[Any]:
            answers = self.planned.get(type(request))
            if not answers:
                return send(connection, request, version, timeout_ms)
            self.count += 1
            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_result(answers.pop(0)(request))
            return refused

        monkeypatch.setattr(Connection, "send", refuse)

    def plan(self, request: type, answer: Answer, times: int = 1) -> None:
        self.planned[request] = [answer] * times


SESSION_MS = 10_000
# A member whose id a refusal took away is missed by the broker only when its session ends.
SHORT_SESSION_MS = 1500


def session_ms_after(code: ErrorCode) -> int:
    """So long that a slow machine costs no membership, unless the test has to wait for the session's end."""
    return SHORT_SESSION_MS if code is ErrorCode.UNKNOWN_MEMBER_ID else SESSION_MS


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"group.min.session.timeout.ms": 100}) as broker:
        yield broker.bootstrap_servers


def member_of(servers: str, group: str = "", session_ms: int = SESSION_MS) -> Driver:
    return Driver(
        servers,
        group or new_group(),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=20,
    )


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(monkeypatch)


@pytest.mark.parametrize(
    "code",
    [
        *NO_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ],
)
@pytest.mark.parametrize("api", ["join", "sync"])
def test_joining_goes_on_after_errors_that_pass(
    servers: str, ottla_topic: str, refusals: Refusals, code: ErrorCode, api: str
) -> None:
    async def test() -> None:
        async with member_of(servers, session_ms=session_ms_after(code)) as member:
            await create_topic(member.network, ottla_topic, 2)
            if api == "join":
                refusals.plan(JoinGroupRequest, join_refusal(code), times=2)
            else:
                refusals.plan(SyncGroupRequest, sync_refusal(code), times=2)
            member.subscribe(ottla_topic)
            await member.join()
            assert refusals.count == 2
            assert member.told.calls == [("assigned", (0, 1))]

    run(test)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ],
)
def test_refusals_are_told_to_whoever_polls(
    servers: str, ottla_topic: str, refusals: Refusals, code: ErrorCode
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            refusals.plan(JoinGroupRequest, join_refusal(code))
            member.subscribe(ottla_topic)
            with pytest.raises(KafkaError) as raised:
                await member.join()
            assert raised.value.code is code
            assert raised.value.context["api"] == "JoinGroup"
            assert "127.0.0.1" in str(raised.value.context["broker"])

    run(test)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, "revoked"),
        (ErrorCode.ILLEGAL_GENERATION, "lost"),
        (ErrorCode.UNKNOWN_MEMBER_ID, "lost"),
    ],
)
def test_a_heartbeat_that_is_refused_makes_the_member_join_again(
    servers: str, ottla_topic: str, refusals: Refusals, code: ErrorCode, call: str
) -> None:
    async def test() -> None:
        async with member_of(servers, session_ms=session_ms_after(code)) as member:
            await member.join_new(ottla_topic, 1)
            refusals.plan(HeartbeatRequest, heartbeat_refusal(code))
            await member.poll_until(lambda: len(member.told.calls) == 3)
            assert member.told.calls == [("assigned", (0,)), (call, (0,)), ("assigned", (0,))]

    run(test)


@pytest.mark.parametrize("code", NO_COORDINATOR)
def test_a_heartbeat_that_finds_no_coordinator_costs_no_rebalance(
    servers: str, ottla_topic: str, refusals: Refusals, code: ErrorCode
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            await member.join_new(ottla_topic, 1)
            refusals.plan(HeartbeatRequest, heartbeat_refusal(code), times=3)
            await member.poll_until(lambda: refusals.count == 3)
            heartbeats = member.member._heartbeats
            answered_ms = heartbeats.last_answered_ms
            await member.poll_until(lambda: heartbeats.last_answered_ms != answered_ms)
            assert member.told.calls == [("assigned", (0,))]

    run(test)


@pytest.mark.parametrize(
    "code",
    [
        *NO_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_commit_is_tried_again_after_errors_that_pass(
    servers: str, ottla_topic: str, refusals: Refusals, code: ErrorCode
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            await member.join_new(ottla_topic, 1)
            refusals.plan(OffsetCommitRequest, commit_refusal(code), times=2)
            offsets = {member.assigned[0]: OffsetAndMetadata(4)}
            await member.member.commit(offsets)
            assert refusals.count == 2
            assert await member.member.committed(member.assigned) == offsets

    run(test)


@pytest.mark.parametrize(
    ("code", "error", "state"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, AbortableError, MemberState.STABLE),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError, MemberState.UNJOINED),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError, MemberState.UNJOINED),
        (ErrorCode.FENCED_INSTANCE_ID, FatalError, MemberState.STABLE),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, KafkaError, MemberState.STABLE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, KafkaError, MemberState.STABLE),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, KafkaError, MemberState.STABLE),
    ],
)
def test_a_commit_that_is_refused_says_why(
    servers: str,
    ottla_topic: str,
    refusals: Refusals,
    code: ErrorCode,
    error: type[KafkaError],
    state: MemberState,
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            await member.join_new(ottla_topic, 1)
            refusals.plan(OffsetCommitRequest, commit_refusal(code))
            with pytest.raises(error) as raised:
                await member.member.commit({member.assigned[0]: OffsetAndMetadata(4)})
            assert raised.value.code is code
            assert raised.value.context["partition"] == f"{ottla_topic}-0"
            assert member.member.state is state

    run(test)


def test_an_asynchronous_commit_that_is_refused_tells_its_callback(
    servers: str, ottla_topic: str, refusals: Refusals
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            await member.join_new(ottla_topic, 1)
            refusals.plan(OffsetCommitRequest, commit_refusal(ErrorCode.NOT_COORDINATOR))
            told: list[Exception | None] = []
            offsets = {member.assigned[0]: OffsetAndMetadata(4)}
            for _ in range(2):
                member.member.commit_async(offsets, lambda _, error: told.append(error))
            await member.poll_until(lambda: len(told) == 2)
            first, second = told
            assert isinstance(first, KafkaError)
            assert first.code is ErrorCode.NOT_COORDINATOR
            # It was on its way to the coordinator that was given up, or waited for the next one.
            assert second is None or isinstance(second, KafkaError)

    run(test)


@pytest.mark.parametrize("code", NO_COORDINATOR)
def test_committed_offsets_are_asked_for_again_after_errors_that_pass(
    servers: str, ottla_topic: str, refusals: Refusals, code: ErrorCode
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            await create_topic(member.network, ottla_topic, 1)
            refusals.plan(OffsetFetchRequest, fetch_refusal(code), times=2)
            partition = TopicPartition(ottla_topic, 0)
            assert await member.member.committed([partition]) == {partition: None}
            assert refusals.count == 2
            refusals.plan(OffsetFetchRequest, fetch_refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            with pytest.raises(KafkaError) as raised:
                await member.member.committed([partition])
            assert raised.value.context["api"] == "OffsetFetch"

    run(test)


def test_an_automatic_commit_that_is_refused_is_made_good_soon(
    servers: str, ottla_topic: str, refusals: Refusals
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:
            await member.join_new(ottla_topic, 1)
            member.consume_to(5)
            refusals.plan(
                OffsetCommitRequest, commit_refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            )
            # Now, and then not for five seconds.
            member.member._auto_commit._next_ms = 0
            await member.poll_until(lambda: bool(member.told.committed), timeout_s=4)
            assert refusals.count == 1

    run(test)


def test_nothing_is_fetched_while_an_eager_member_commits_before_a_rebalance(
    servers: str, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Connection.send
    held: list[Callable[[], None]] = []

    def hold(connection: Connection, request: Any, *rest: Any) -> asyncio.Future[Any]:
        if not isinstance(request, OffsetCommitRequest):
            return send(connection, request, *rest)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def let_go() -> None:
            real = send(connection, request, *rest)
            real.add_done_callback(lambda real: answer.set_result(real.result()))

        held.append(let_go)
        return answer

    async def test() -> None:
        async with member_of(servers) as member:
            await member.join_new(ottla_topic, 1)
            member.consume_to(5)
            states = member.subscriptions.states().values()
            assert [state.is_fetchable for state in states] == [True]
            monkeypatch.setattr(Connection, "send", hold)
            member.member.request_rejoin("a test")
            await member.poll_until(lambda: bool(held))
            assert [state.is_fetchable for state in states] == [False]
            assert member.told.calls == [("assigned", (0,))], "revoked only when it is committed"
            held.pop()()
            monkeypatch.setattr(Connection, "send", send)
            await member.poll_until(lambda: len(member.told.calls) == 3)

    run(test)


def test_committed_offsets_wait_for_an_open_transaction(servers: str, ottla_topic: str) -> None:
    async def test() -> None:
        group = new_group()
        async with member_of(servers, group) as member:
            await create_topic(member.network, ottla_topic, 1)
            partition = TopicPartition(ottla_topic, 0)
            # The coordinator is known then, and the time below is for its answers alone.
            assert await member.member.committed([partition]) == {partition: None}
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": servers, "transactional.id": group, "log_level": 0}
            )
            consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})

            def open_transaction() -> None:
                producer.init_transactions(10)
                producer.begin_transaction()
                producer.send_offsets_to_transaction(
                    [confluent_kafka.TopicPartition(ottla_topic, 0, 17)],
                    consumer.consumer_group_metadata(),
                    10,
                )

            await asyncio.to_thread(open_transaction)
            with pytest.raises(TimedOutError, match="UNSTABLE_OFFSET_COMMIT"):
                await member.member.committed([partition], 1500)
            waiting = asyncio.ensure_future(member.member.committed([partition]))
            await asyncio.to_thread(producer.commit_transaction, 10)
            assert await waiting == {partition: OffsetAndMetadata(17)}
            consumer.close()

    run(test)


def test_a_group_that_one_may_not_use_is_an_error_of_the_poll(
    servers: str, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with member_of(servers) as member:

            async def refuse(key_type: int, key: str) -> int:
                raise FatalError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

            monkeypatch.setattr(member.network, "coordinator", refuse)
            member.subscribe(ottla_topic)
            with pytest.raises(FatalError):
                await member.poll_until(lambda: False)
            with pytest.raises(FatalError):
                await member.member.commit({TopicPartition(ottla_topic, 0): OffsetAndMetadata(1)})

    run(test)


def test_the_reason_of_a_rejoin_is_told_to_the_coordinator(
    servers: str, ottla_topic: str, refusals: Refusals
) -> None:
    async def test() -> None:
        async with member_of(servers, session_ms=SHORT_SESSION_MS) as member:
            await member.join_new(ottla_topic, 1)
            reasons: list[str | None] = []

            def note(request: JoinGroupRequest) -> JoinGroupResponse:
                reasons.append(request.reason)
                response: JoinGroupResponse = join_refusal(ErrorCode.UNKNOWN_MEMBER_ID)(request)
                return response

            refusals.plan(JoinGroupRequest, note)
            member.member.request_rejoin("because of a test")
            await member.poll_until(lambda: bool(reasons) and member.is_stable)
            assert reasons == ["because of a test"]
            await until(lambda: member.is_stable)

    run(test)
