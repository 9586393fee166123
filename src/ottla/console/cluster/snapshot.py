"""What the poller found at one time."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin_model.cluster import ClusterDescription


@dataclass(frozen=True)
class ClusterSnapshot:
    """The cluster as it was at a time; each poll makes a new one, with the next version."""

    version: int
    at_ms: int
    cluster: ClusterDescription
