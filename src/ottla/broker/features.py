"""The features of the cluster and their levels (KIP-584), as clients see them.

The ranges are those of Apache Kafka. The levels are fixed: they say what this broker does.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """A feature, the levels that are known of it, and the level that the cluster has; 0: it is not enabled."""

    name: str
    first_level: int
    last_level: int
    level: int


TRANSACTION_VERSION: Final = "transaction.version"
METADATA_VERSION: Final = "metadata.version"

# The level of metadata.version is that of Apache Kafka 4.3 (4.3-IV0), whose answers the tests compare with ours.
FEATURES: Final = (
    # Groups of the consumer protocol (KIP-848).
    Feature("group.version", 0, 1, 1),
    # There are no voters that could be added or removed (KIP-853).
    Feature("kraft.version", 0, 1, 0),
    Feature(METADATA_VERSION, 7, 30, 30),
    # Every transaction has an epoch of its own (KIP-890).
    Feature(TRANSACTION_VERSION, 0, 2, 2),
)
