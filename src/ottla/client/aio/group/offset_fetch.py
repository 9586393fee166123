"""OffsetFetch: the offsets that a group has committed."""

from __future__ import annotations

from collections.abc import Collection

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.offset_commit import CommittingMember
from ottla.client.aio.network.network import Network
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.group_offsets import (
    TopicIds,
    fetch_request,
    fetched_offsets,
    group_error,
)
from ottla.errors import ErrorCode, KafkaError, RetriableError, TimedOutError, exception_for
from ottla.model import TopicPartition
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

# Only members of the new protocol are checked (KIP-848).
_OUTDATED_MEMBER = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)

Committed = dict[TopicPartition, OffsetAndMetadata | None]


class CommittedOffsets:
    """Asks the coordinator for committed offsets, and retries."""

    def __init__(
        self,
        group_id: str,
        network: Network,
        coordinator: CoordinatorLink,
        member: CommittingMember,
    ) -> None:
        self._group_id = group_id
        self._network = network
        self._coordinator = coordinator
        self._member = member

    async def fetch(self, partitions: Collection[TopicPartition], deadline_ms: float) -> Committed:
        """The committed offsets; waits for open transactions that commit some of them (KIP-447)."""
        if not partitions:
            return {}
        attempt = 0
        failure: RetriableError | None = None
        while True:
            await self._coordinator.wait_until_known(deadline_ms)
            try:
                found = await self._fetch_once(partitions, deadline_ms)
            except RetriableError as error:
                failure = error
            else:
                if found is not None:
                    return found
            if not await self._coordinator.back_off(attempt, deadline_ms):
                raise self._timed_out(partitions, failure) from failure
            attempt += 1

    async def _fetch_once(
        self, partitions: Collection[TopicPartition], deadline_ms: float
    ) -> Committed | None:
        """Send one request; None if it was not answered by the deadline."""
        ids = TopicIds.of(self._network.cluster, partitions)

        def build(version: int) -> OffsetFetchRequest:
            member = self._member.checked_generation
            return fetch_request(self._group_id, member, partitions, ids, version)

        answer = self._coordinator.send(OffsetFetchRequest, build, at_most=ids.at_most)
        if not await self._coordinator.answered_by(answer, deadline_ms):
            return None
        response = answer.result()
        code = group_error(response, self._group_id)
        if code:
            if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                self._coordinator.forget(f"OffsetFetch was answered with {code.name}")
            raise self._refused(code)
        try:
            found = fetched_offsets(response, self._group_id, ids)
        except RetriableError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                self._network.request_update()
            raise
        return {partition: found.get(partition) for partition in partitions}

    def _refused(self, code: ErrorCode) -> KafkaError:
        where = {"api": "OffsetFetch", "group": self._group_id, "broker": self._coordinator.broker}
        if code in _OUTDATED_MEMBER:
            # A heartbeat will tell the member its new epoch, or that it was removed; then anybody may ask.
            return RetriableError(code, None, where)
        return exception_for(code, None, **where)

    def _timed_out(
        self, partitions: Collection[TopicPartition], error: RetriableError | None
    ) -> TimedOutError:
        named = ", ".join(map(str, partitions))
        why = "" if error is None else f" The last attempt failed: {error}"
        return TimedOutError(
            message=f"The committed offsets of {named} could not be fetched in time.{why}",
            context={"api": "OffsetFetch", "group": self._group_id},
        )
