"""Topics that are to be written and do not exist: told at once where the cluster creates none by itself.

A producer that asks for such a topic waits for `max.block.ms`, a minute, because it may be created a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.admin_model.configs import ConfigResource
from ottla.client.blocking.admin import Admin
from ottla.errors import ConfigError, KafkaError
from ottla.spark.partial_answers import absent

_CREATES: Final = "auto.create.topics.enable"


def refuse_missing(admin: Admin, names: Iterable[str]) -> None:
    """Fail if one of these topics does not exist, and the cluster does not create it when it is asked for."""
    missing = absent(admin, names)
    if missing and not _creates_topics(admin):
        raise ConfigError(
            f"The cluster has no topic {', '.join(missing)} to write to, and creates none by itself "
            f"({_CREATES}=false): create it, as in ottla topics create {missing[0]}"
        )


def _creates_topics(admin: Admin) -> bool:
    """What a broker says; where this client may not ask, the producer finds out."""
    try:
        node = admin.describe_cluster().nodes[0]
        broker = ConfigResource.broker(node.id)
        return admin.describe_configs([broker])[broker][_CREATES].value != "false"
    except (KafkaError, KeyError, IndexError):
        return True
