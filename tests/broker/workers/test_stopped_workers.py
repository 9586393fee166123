"""A worker that stood still while others have gone on: what it does first when it goes on itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.broker import requests
from tests.broker.workers.serving_workers import serving_workers

from ottla import Consumer
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import ProduceResponse

METADATA_VERSION = 12


@pytest.mark.long
def test_a_worker_that_stood_still_acknowledges_nothing_for_a_topic_that_was_deleted_meanwhile(
    tmp_path: Path,
) -> None:
    """A deletion is answered although one worker hangs.

    The requests of one client come in one receive: the first, of before the deletion, must not take the others along to
    a partition that is not there any more.
    """
    with serving_workers(tmp_path, 2) as broker:
        addresses = broker.addresses()
        with RawConnection(addresses[1]) as asking:
            requests.create(asking, "again")
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name="again")])
            answer = asking.call(wanted, MetadataResponse, METADATA_VERSION)
            leader = answer.topics[0].partitions[0].leader_id
        with (
            RawConnection(addresses[leader]) as client,
            RawConnection(addresses[3 - leader]) as other,
        ):
            requests.fill(client, "again", b"before")
            worker = broker.pid_of(leader)
            os.kill(worker, signal.SIGSTOP)
            try:
                for value in (b"meanwhile", b"after"):
                    data = requests.batch_of(value)
                    client.send(requests.produce_request("again", data), requests.PRODUCE_VERSION)
                    if value == b"meanwhile":
                        assert requests.delete(other, "again").error_code == ErrorCode.NONE
                        requests.create(other, "again")
            finally:
                os.kill(worker, signal.SIGCONT)
            errors = []
            for _ in range(2):
                answered = client.receive(ProduceResponse, requests.PRODUCE_VERSION)
                errors.append(answered.responses[0].partition_responses[0].error_code)
        with Consumer(
            {"bootstrap.servers": broker.address, "auto.offset.reset": "earliest"}
        ) as consumer:
            consumer.assign([("again", 0)])
            found = [record.value for record in consumer.poll(5.0)]
        assert errors[1] != ErrorCode.NONE or b"after" in found, (errors, found)
        assert broker.pid_of(leader) == worker
        assert broker.stop() == 0
