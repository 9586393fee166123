"""How much metadata the brokers take with an offset."""

from __future__ import annotations

from ottla.app.declarations.listener_spec import ListenerSpec
from ottla.app.delivery.gaps import DEFAULT_MAX_METADATA_BYTES
from ottla.client.admin_model.configs import ConfigResource
from ottla.client.aio.admin.client import Admin
from ottla.errors import IllegalStateError, KafkaError

_OPTION = "offset.metadata.max.bytes"
_TIMEOUT_SECONDS = 10.0


async def read_metadata_limit(admin: Admin) -> int:
    """The smallest limit of the brokers; Kafka's default where the app may not see it."""
    try:
        nodes = (await admin.describe_cluster(timeout=_TIMEOUT_SECONDS)).nodes
        resources = [ConfigResource.broker(node.id) for node in nodes]
        found = await admin.describe_configs(resources, timeout=_TIMEOUT_SECONDS)
    except KafkaError:
        return DEFAULT_MAX_METADATA_BYTES
    values = [
        int(entries[_OPTION].value or DEFAULT_MAX_METADATA_BYTES)
        for entries in found.values()
        if _OPTION in entries
    ]
    return min(values, default=DEFAULT_MAX_METADATA_BYTES)


def metadata_error(spec: ListenerSpec, error: KafkaError) -> IllegalStateError:
    """What to change when the broker takes less metadata than gaps may need."""
    return IllegalStateError(
        f"listener {spec.name}: the broker refuses the metadata of its offsets: raise {_OPTION} to "
        f"{DEFAULT_MAX_METADATA_BYTES} or more ({error})"
    )
