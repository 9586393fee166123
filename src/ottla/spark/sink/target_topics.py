"""The topics that are written: how many partitions they have, and whether they exist.

A producer that asks for a topic that does not exist waits for `max.block.ms`, a minute, because it may be created a
moment later. The sink says so at once where the cluster creates no topics by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.client.admin_model.configs import ConfigResource
from ottla.client.blocking.admin import Admin
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import ConfigError, KafkaError
from ottla.spark.cluster_queries import missing_topics
from ottla.spark.sink.process_state import SINK_PROCESS
from ottla.spark.sink.sink_options import SinkSettings

_AUTO_CREATE: Final = "auto.create.topics.enable"


def planned_partition_counts(settings: SinkSettings) -> dict[str, int]:
    """The partition counts of the topics that are known by name: all tasks of a micro-batch use the same."""
    named = dict.fromkeys((settings.topic, settings.marker_topic))
    needed = [each for each in named if each is not None]
    # The pinned topics need not exist: it may be that no row ever names them.
    return partition_counts(settings, needed, settings.pinned_topics)


def partition_counts(
    settings: SinkSettings, needed: Sequence[str], others: Sequence[str] = ()
) -> dict[str, int]:
    """The counts of now, from the cluster: a producer's metadata may be minutes old."""
    admin = SINK_PROCESS.admin(settings.admin)
    found = describe_existing_topics(admin, dict.fromkeys([*needed, *others]))
    counts = {name: len(topic.partitions) for name, topic in found.items()}
    missing = [each for each in needed if each not in counts]
    if missing:
        refuse_missing(admin, missing)
    for each in missing:
        # The producer's metadata request creates it.
        counts[each] = len(SINK_PROCESS.producer(settings.kafka).partitions_for(each))
    return counts


def refuse_missing(admin: Admin, names: Iterable[str]) -> None:
    """Raise a ConfigError if one of these topics does not exist and the cluster does not create topics by itself."""
    missing = missing_topics(admin, names)
    if missing and not _creates_topics(admin):
        raise ConfigError(
            f"The cluster has no topic {', '.join(missing)} to write to, and creates none by itself "
            f"({_AUTO_CREATE}=false): create it, as in ottla topics create {missing[0]}"
        )


def _creates_topics(admin: Admin) -> bool:
    """The value in a broker's configuration; without permission to read it, the producer finds out."""
    try:
        node = admin.describe_cluster().nodes[0]
        broker = ConfigResource.broker(node.id)
        return admin.describe_configs([broker])[broker][_AUTO_CREATE].value != "false"
    except (KafkaError, KeyError, IndexError):
        return True
