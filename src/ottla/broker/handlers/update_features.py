"""UpdateFeatures: levels that hold already are confirmed, others are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.access import Operation
from ottla.broker.features import FEATURES, METADATA_VERSION, Feature
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.errors import ErrorCode
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
LAST_VERSION_WITH_RESULTS = 1

_BY_NAME: Final = {feature.name: feature for feature in FEATURES}


def handle(
    node: Node, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    refused = refuse_cluster(node, context.caller, Operation.ALTER)
    if refused is not None:
        return UpdateFeaturesResponse(error_code=refused.error, error_message=refused.message)
    reason = _reason_to_refuse(node, request.feature_updates)
    if reason is not None:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION,
            error_message=(
                f"The update failed for all features since the following feature had an error: {reason}"
            ),
        )
    results = []
    if context.version <= LAST_VERSION_WITH_RESULTS:
        results = [
            UpdatableFeatureResult(
                feature=update.feature,
                error_code=ErrorCode.NONE,
                error_message=ErrorCode.NONE.name,  # Kafka's message
            )
            for update in request.feature_updates
        ]
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _reason_to_refuse(node: Node, updates: Iterable[FeatureUpdateKey]) -> str | None:
    for update in {each.feature: each for each in updates}.values():
        reason = _reason(node, update)
        if reason is not None:
            return reason
    return None


def _reason(node: Node, update: FeatureUpdateKey) -> str | None:
    """Why a level is refused, checked in Kafka's order."""
    name, level = update.feature, update.max_version_level
    invalid = f"Invalid update version {level} for feature {name}. "
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{invalid}The controller does not support the given upgrade type."
    if level < 0:
        return f"{invalid}A feature version cannot be less than 0."
    feature = _BY_NAME.get(name)
    if feature is None:
        unknown = f"Local controller {node.node_id} does not support this feature."
        return f"{invalid}{unknown if level else f'Feature {name} not found.'}"
    if not feature.first_level <= level <= feature.last_level:
        return (
            f"{invalid}Local controller {node.node_id} only supports versions "
            f"{feature.first_level}-{feature.last_level}"
        )
    if level == feature.level:
        return None
    return _reason_against_change(feature, update, invalid)


def _reason_against_change(feature: Feature, update: FeatureUpdateKey, invalid: str) -> str:
    is_upgrade = update.upgrade_type == UPGRADE
    if update.max_version_level < feature.level and is_upgrade:
        return (
            f"{invalid}Can't downgrade the version of this feature without setting the upgrade type "
            "to either safe or unsafe downgrade."
        )
    if update.max_version_level > feature.level and not is_upgrade:
        return f"{invalid}Can't downgrade to a newer version."
    if feature.name == METADATA_VERSION:
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata information."
            if update.upgrade_type == SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        return (
            f"Unsupported metadata.version downgrade from {feature.level} to "
            f"{update.max_version_level}. {why}"
        )
    return f"{invalid}This broker has level {feature.level} and no other."


API = serve(UpdateFeaturesRequest, UpdateFeaturesResponse, handle)
