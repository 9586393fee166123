"""ElectLeaders: every partition has the leader it should have."""

from __future__ import annotations

import pytest
from tests.broker.requests import create, every_version_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

PREFERRED, UNCLEAN = 0, 1


def ask(
    connection: RawConnection,
    version: int,
    wanted: dict[str, list[int]] | None,
    election_type: int = PREFERRED,
) -> ElectLeadersResponse:
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=(
            None
            if wanted is None
            else [
                TopicPartitions(topic=name, partitions=partitions)
                for name, partitions in wanted.items()
            ]
        ),
    )
    answer: ElectLeadersResponse = connection.call(request, ElectLeadersResponse, version)
    return answer


@pytest.mark.parametrize("version", every_version_of(ElectLeadersRequest))
def test_no_election_is_needed(connection: RawConnection, topic: str, version: int) -> None:
    create(connection, topic, 2)
    for election_type in (PREFERRED, UNCLEAN) if version >= 1 else (PREFERRED,):
        answer = ask(connection, version, {topic: [0, 1]}, election_type)
        assert answer.error_code == ErrorCode.NONE
        (about,) = answer.replica_election_results
        assert about.topic == topic
        assert [(each.partition_id, each.error_code) for each in about.partition_result] == [
            (0, ErrorCode.ELECTION_NOT_NEEDED),
            (1, ErrorCode.ELECTION_NOT_NEEDED),
        ]


@pytest.mark.parametrize("version", every_version_of(ElectLeadersRequest))
def test_asked_for_all_it_names_every_topic_but_only_elections_that_were_held(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic)
    answer = ask(connection, version, None)
    assert answer.error_code == ErrorCode.NONE
    assert topic in {about.topic for about in answer.replica_election_results}
    assert not any(about.partition_result for about in answer.replica_election_results)


def test_partitions_that_do_not_exist(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    answer = ask(connection, 2, {topic: [1, -1], "no-such-topic": [0]})
    errors = [
        each.error_code
        for about in answer.replica_election_results
        for each in about.partition_result
    ]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3


@pytest.mark.parametrize("version", [1, 2])
def test_kinds_of_elections_that_do_not_exist(connection: RawConnection, version: int) -> None:
    answer = ask(connection, version, None, 5)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
