"""The brokers of the cluster: addresses, disks, versions, configs; and what an Ottla broker tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.api_names import api_key
from ottla.console.api import broker_configs, broker_internals
from ottla.console.api.broker_configs import BrokerQuery, check_broker
from ottla.console.cluster.snapshot import BrokerSnapshot, Part
from ottla.console.http.routes import Call, Route
from ottla.errors import OttlaError


@dataclass(frozen=True)
class LogDirRow:
    """A log directory; `error` says why the broker does not use it."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas_bytes: int


@dataclass(frozen=True)
class BrokerRow:
    """A broker. Sizes are None if the cluster does not tell them."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leader_count: int
    replica_count: int
    replicas_bytes: int | None
    log_dirs: list[LogDirRow] | None


@dataclass(frozen=True)
class Brokers:
    """The brokers that are there now."""

    at_ms: int
    cluster_id: str | None
    controller_id: int | None
    rows: list[BrokerRow]
    problems: list[str]


_PARTS: Final = (Part.BROKERS, Part.LOG_DIRS)


async def brokers(call: Call[None, None]) -> Brokers:
    """The brokers as the console saw them last."""
    snapshot = (await call.visible()).snapshot
    return Brokers(
        at_ms=snapshot.at_ms,
        cluster_id=snapshot.cluster_id,
        controller_id=snapshot.controller_id,
        rows=[_row(each) for _, each in sorted(snapshot.brokers.items())],
        problems=[
            f"{each.part}: {each.message}" for each in snapshot.part_problems if each.part in _PARTS
        ],
    )


def _row(broker: BrokerSnapshot) -> BrokerRow:
    dirs = broker.log_dirs
    return BrokerRow(
        id=broker.id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        is_controller=broker.is_controller,
        leader_count=broker.leader_count,
        replica_count=broker.replica_count,
        replicas_bytes=None if dirs is None else sum(each.replicas_bytes for each in dirs),
        log_dirs=None if dirs is None else [LogDirRow(*each) for each in dirs],
    )


# Versions


@dataclass(frozen=True)
class ApiVersionRow:
    """An API that a broker serves, and its versions."""

    key: int | None
    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True)
class FeatureRow:
    """A feature of the cluster (KIP-584): the levels that the broker supports, and the one that is in use."""

    name: str
    min_level: int | None
    max_level: int | None
    level: int | None


@dataclass(frozen=True)
class BrokerVersions:
    """What a broker speaks."""

    broker_id: int
    apis: list[ApiVersionRow]
    features: list[FeatureRow]
    problems: list[str]


async def versions(call: Call[BrokerQuery, None]) -> BrokerVersions:
    """The versions of its APIs and the features, asked for by the user's own connection."""
    broker_id, problems = call.query.id, []
    await check_broker(call, broker_id)
    admin = call.identity.clients.admin()
    apis = (await admin.describe_api_versions([broker_id]))[broker_id]
    features: list[FeatureRow] = []
    try:
        told = await admin.describe_features(node_id=broker_id)
    except OttlaError as error:
        problems.append(f"the features are not known: {error}")
    else:
        for name in sorted({*told.supported_features, *told.finalized_features}):
            supported = told.supported_features.get(name)
            finalized = told.finalized_features.get(name)
            features.append(
                FeatureRow(
                    name,
                    None if supported is None else supported.min_version,
                    None if supported is None else supported.max_version,
                    None if finalized is None else finalized.max_version,
                )
            )
    rows = [
        ApiVersionRow(api_key(name), name, found.min_version, found.max_version)
        for name, found in apis.items()
    ]
    rows.sort(key=lambda row: (row.key is None, row.key))
    return BrokerVersions(broker_id, rows, features, problems)


ROUTES: Final[list[Route]] = [
    Route("GET", "/api/brokers", brokers, "The brokers of the cluster"),
    Route(
        "GET",
        "/api/broker/versions",
        versions,
        "The APIs and features of a broker",
        query=BrokerQuery,
    ),
    *broker_configs.ROUTES,
    *broker_internals.ROUTES,
]
