"""What groups are asked that cannot be, and what is answered: one table for this broker and for Apache Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.broker import group_requests as ask
from tests.broker.group_errors.administering import DELETING, DESCRIBING, FETCHING
from tests.broker.group_errors.committing import COMMITTING
from tests.broker.group_errors.joining import JOINING, SYNCING
from tests.broker.group_errors.stage import PARTITIONS, Situation, stage_on
from tests.broker.group_errors.staying import LEAVING, STAYING
from tests.broker.requests import create

from ottla.client.raw import RawConnection
from ottla.wire.declare import info_of
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

SITUATIONS = {
    situation.title: situation
    for situation in (
        *(*JOINING, *SYNCING, *STAYING, *LEAVING),
        *(*COMMITTING, *FETCHING, *DELETING, *DESCRIBING),
    )
}


class Ready(NamedTuple):
    """A broker with a coordinator, the versions that it serves, and a topic to commit offsets of."""

    address: str
    served: Mapping[int, range]
    topic: str
    topic_id: uuid.UUID
    let_pass: Callable[[float], None]

    def versions_of(self, situation: Situation) -> list[int]:
        return situation.versions_among(self.served[info_of(situation.request).api_key])

    def answers(self, situation: Situation) -> dict[int, str]:
        """What each version is told."""
        answers = {}
        for version in self.versions_of(situation):
            with stage_on(self.address, self.topic, self.topic_id, self.let_pass) as stage:
                answers[version] = situation.act(stage, version).name
        return answers


def prepare(address: str, let_pass: Callable[[float], None] = time.sleep) -> Ready:
    """Makes the topic that the situations are about, and waits for the coordinator.

    `let_pass` lets so many seconds pass; a broker whose clock can be moved need not be waited for.
    """
    topic = f"t-{uuid.uuid4().hex[:12]}"
    with RawConnection(address) as connection:
        asked = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        answer = connection.call(asked, ApiVersionsResponse, 3)
        served = {
            key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys
        }
        topic_id = create(connection, topic, PARTITIONS)
        ask.await_coordinator(connection)
    return Ready(address, served, topic, topic_id, let_pass)
