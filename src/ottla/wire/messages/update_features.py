"""UpdateFeatures: changes the levels of features of the cluster (KIP-584)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int8, Int16, Int32, String


@struct
class FeatureUpdateKey:
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = wire(until=0, default=False)
    upgrade_type: Int8 = wire(since=1, default=1)


@message(api=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: Int32 = wire(default=60_000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = wire(since=1, default=False)


@struct
class UpdatableFeatureResult:
    feature: String
    error_code: Int16
    error_message: String | None


@message(api=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None
    results: list[UpdatableFeatureResult] = wire(until=1, default_factory=list)
