"""All topics of a cluster."""

from __future__ import annotations

import asyncio
import random

from ottla.client.aio.network.brokers import Network
from ottla.client.model import PartitionInfo
from ottla.client.state.metadata import MetadataState
from ottla.errors import KafkaError, TimedOutError
from ottla.wire.messages.metadata import MetadataRequest


async def list_topics(network: Network, timeout_ms: float) -> dict[str, list[PartitionInfo]]:
    """Every topic with its partitions, asked for anew."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    trouble: KafkaError | None = None
    attempt = 0
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                try:
                    response = await network.call(await network.any_node(), request)
                    break
                except KafkaError as error:
                    if not error.code.retriable:
                        raise
                    trouble = error
                await asyncio.sleep(network.retry.delay_ms(attempt, random.random()) / 1000)
                attempt += 1
    except TimeoutError:
        trouble = trouble or network.trouble
        why = "" if trouble is None else f" The last trouble: {trouble}"
        raise TimedOutError(
            message=f"The topics were not told within {round(timeout_ms)} ms.{why}",
            context={"api": "Metadata"},
        ) from trouble
    # Read apart from the network's own snapshot, which holds only what the client follows.
    found = MetadataState(max_age_ms=0, backoff=network.retry)
    found.apply(request, response, 0, 0)
    return {name: found.cluster.partitions_for(name) for name in found.cluster.topics}
