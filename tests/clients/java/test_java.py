"""What is particular to Apache Kafka's Java client."""

from __future__ import annotations

import pytest
from tests.clients.broker_side import batches_of
from tests.clients.conftest import RestartableBroker
from tests.clients.driver import RefusedError
from tests.clients.java.agent import Agent
from tests.clients.java.driver import Java, JavaAdmin
from tests.clients.messages import numbered

from ottla import Broker
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

START_MS = 1_700_000_000_000
NODE_ID = 1


@pytest.fixture
def client(ottla_broker: Broker, java_agent: Agent) -> Java:
    return Java(ottla_broker.bootstrap_servers, java_agent)


def test_the_default_producer_goes_on_after_a_restart_as_the_same(
    restartable_broker: RestartableBroker, java_agent: Agent, ottla_topic: str
) -> None:
    servers = restartable_broker.bootstrap_servers
    with Java(servers, java_agent).producer() as producer:
        assert producer.send(ottla_topic, numbered(50)) == list(range(50))
        restartable_broker.restart()
        assert producer.send(ottla_topic, numbered(50, start=50)) == list(range(50, 100))
    batches = batches_of(servers, ottla_topic)
    values = [record.value for batch in batches for record in batch.records]
    assert values == [message.value for message in numbered(100)]
    assert len({batch.header.producer_id for batch in batches}) == 1
    assert batches[0].header.producer_id >= 0
    assert batches[-1].header.last_sequence == 99


def test_the_rest_of_the_admin_client_is_answered(client: Java, ottla_topic: str) -> None:
    partition = TopicPartition(ottla_topic, 0)
    messages = numbered(5, timestamp_ms=START_MS)
    client.create_topic(ottla_topic, partitions=2)
    client.send(ottla_topic, [*messages[:2], messages[4], *messages[2:4]])
    size_bytes = sum(
        batch.header.size_bytes for batch in batches_of(client.bootstrap_servers, ottla_topic)
    )
    with JavaAdmin(client.agent, client.bootstrap_servers) as admin:
        call = admin.connection.call
        assert call("list-offsets", *partition) == [b"0", b"5", b"2"]
        assert call("nodes") == [client.bootstrap_servers.encode()]
        assert call("log-dir-size", *partition, NODE_ID) == [b"%d" % size_bytes]
        assert call("log-dir-size", ottla_topic, 1, NODE_ID) == [b"0"]
        assert call("reassignments") == []
        with pytest.raises(RefusedError) as caught:
            call("elect", *partition)
        assert caught.value.error is ErrorCode.ELECTION_NOT_NEEDED
