"""ApiVersions: which APIs and versions a broker speaks (KIP-35), and its features (KIP-584).

Since v5 the client says which broker of which cluster it means to reach (KIP-1242).
"""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int16, Int32, Int64, String


@message(api=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    client_software_name: String = wire(since=3, default="")
    client_software_version: String = wire(since=3, default="")
    cluster_id: String | None = wire(since=5, default=None)
    node_id: Int32 = wire(since=5, default=-1)


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(api=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = wire(since=1, default=0)
    supported_features: list[SupportedFeatureKey] = wire(since=3, tag=0, default_factory=list)
    finalized_features_epoch: Int64 = wire(since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = wire(since=3, tag=2, default_factory=list)
    zk_migration_ready: Bool = wire(since=3, tag=3, default=False)
