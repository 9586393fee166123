"""Commits of offsets and what is asked about them: requests in versions that all peers speak."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.frames import (
    CLIENT_ID,
    FLEXIBLE_HEADER_BYTES,
    GROUP_KEY,
    RefusedError,
    coordinators,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.framing import SIZE_BYTES, frame_request
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

OFFSETS_TOPIC = "__consumer_offsets"
COORDINATOR_COUNT = 50  # the partitions of that topic
COMMIT_VERSION = 9
FETCH_VERSION = 9


def commit_frame(group_id: str, topic: str, offsets: Sequence[int]) -> bytes:
    """Commits an offset for each of the first partitions of a topic, as a consumer without a group does."""
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=""
                    )
                    for index, offset in enumerate(offsets)
                ],
            )
        ],
    )
    return frame_request(request, COMMIT_VERSION, 1, CLIENT_ID)


def commit_once(connection: RawConnection, frame: bytes) -> int:
    """Sends a commit and waits; how long the answer is, with its size field."""
    connection.socket.sendall(frame)
    return check_commit(connection.receive_frame())


def check_commit(answer: bytes) -> int:
    response = decode_message(OffsetCommitResponse, COMMIT_VERSION, answer, FLEXIBLE_HEADER_BYTES)
    for partition in response.topics[0].partitions:
        if partition.error_code != ErrorCode.NONE:
            raise RefusedError(f"a commit was answered with error {partition.error_code}")
    return len(answer) + SIZE_BYTES


def committed(bootstrap_server: str, group_ids: Sequence[str]) -> dict[str, list[int] | None]:
    """The offsets of groups that have committed to one topic, by partition; None if a coordinator is not ready."""
    found: dict[str, list[int] | None] = dict.fromkeys(group_ids)
    by_address: dict[str, list[str]] = {}
    for group_id, address in coordinators(bootstrap_server, group_ids, GROUP_KEY).items():
        by_address.setdefault(address, []).append(group_id)
    for address, groups in by_address.items():
        wanted = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in groups]
        with RawConnection(address) as connection:
            request = OffsetFetchRequest(groups=wanted)
            response = connection.call(request, OffsetFetchResponse, FETCH_VERSION)
        found |= {group.group_id: _offsets(group) for group in response.groups}
    return found


def _offsets(group: OffsetFetchResponseGroup) -> list[int] | None:
    if group.error_code != ErrorCode.NONE:
        return None
    found = {
        partition.partition_index: partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }
    return [found[index] for index in sorted(found)]
