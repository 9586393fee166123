"""The network with our own broker: nodes that are killed and come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import network_to, until

import ottla
from ottla.client.aio.network.coordinator_cache import KEY_GROUP, KEY_TRANSACTION
from ottla.errors import RetriableError
from ottla.wire.messages.metadata import MetadataRequest


def test_a_broker_that_restarts_on_its_port_is_used_again(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        broker = await asyncio.to_thread(ottla.Broker(data_dir=tmp_path).start)
        address = broker.bootstrap_servers
        async with network_to(address) as network:
            await network.topic("made-by-asking", 10_000)
            (node_id,) = network.cluster.nodes
            await asyncio.to_thread(broker.stop)
            with pytest.raises(RetriableError):
                await network.call(node_id, MetadataRequest(topics=[]))
            broker = await asyncio.to_thread(ottla.Broker(data_dir=tmp_path, listen=address).start)
            try:
                network.request_update()
                await network.updated(10_000)
                answer = await network.call(node_id, MetadataRequest(topics=[]))
                assert [each.node_id for each in answer.brokers] == [node_id]
            finally:
                await asyncio.to_thread(broker.stop)

    run(main())


def test_metadata_and_coordinators_survive_the_loss_of_nodes(run: Run) -> None:
    async def main() -> None:
        with ottla.Broker(nodes=3) as broker:
            async with network_to(*broker.bootstrap_servers.split(",")) as network:
                await network.topic("t", 10_000)
                await asyncio.to_thread(broker.kill_node, 1)
                network.request_update()
                await until(lambda: 1 not in network.cluster.nodes)
                for key_type in (KEY_GROUP, KEY_TRANSACTION):
                    for key in ("a", "b", "c"):
                        coordinator = await network.coordinator(key_type, key)
                        assert not network.name_of(coordinator).startswith("1 ")
                        await network.connection(coordinator)
                await asyncio.to_thread(broker.start_node, 1)
                network.request_update()
                await until(lambda: 1 in network.cluster.nodes)
                await network.connection(1)

    run(main())
