"""Configs of brokers: what they are, where they come from, and changing those that may change while brokers run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.admin_model.configs import ConfigEntry, ConfigResource
from ottla.client.aio.admin.client import Admin
from ottla.config.options import ConfigSource
from ottla.console.access.roles import Role
from ottla.console.brokers.config_plan import BrokerConfigPlan, Scope, broker_config_plan
from ottla.console.http.errors import not_found
from ottla.console.http.routes import Call, Route
from ottla.console.topics.change_plans import check_same
from ottla.console.topics.config_plan import ConfigChange, alter_configs, check_changes
from ottla.console.topics.config_rows import ConfigRow, config_rows


@dataclass(frozen=True)
class BrokerQuery:
    """Which broker."""

    id: int


@dataclass(frozen=True)
class BrokerConfigs:
    """The configs of a broker: those that were changed while it ran first."""

    broker_id: int
    set_count: int
    rows: list[ConfigRow]


async def configs(call: Call[BrokerQuery, None]) -> BrokerConfigs:
    """The configs of a broker, asked for by the user's own connection."""
    await check_broker(call, call.query.id)
    entries = await _describe(call.identity.clients.admin(), call.query.id)
    rows = config_rows(entries.values(), ConfigSource.DYNAMIC_BROKER_CONFIG)
    return BrokerConfigs(call.query.id, sum(row.is_set for row in rows), rows)


async def check_broker(
    call: Call[BrokerQuery, None] | Call[None, AlterBrokerBody], broker_id: int
) -> None:
    """Raise ApiError if the cluster has no such broker now."""
    snapshot = (await call.visible()).snapshot
    if broker_id not in snapshot.brokers:
        known = ", ".join(map(str, sorted(snapshot.brokers)[:20]))
        raise not_found(f"the cluster has no broker {broker_id} now", f"there are: {known}")


async def _describe(admin: Admin, broker_id: int) -> dict[str, ConfigEntry]:
    resource = ConfigResource.broker(broker_id)
    found = await admin.describe_configs(
        [resource], include_synonyms=True, include_documentation=True
    )
    return found[resource]


# Change


@dataclass(frozen=True)
class AlterBrokerBody:
    """What to change for one broker or for all; without `preview`, `state` has to be that of the preview."""

    id: int
    """The broker; for `all` the one that was looked at."""
    changes: list[ConfigChange]
    scope: Scope = "broker"
    preview: bool = True
    state: str | None = None


@dataclass(frozen=True)
class AlterBrokerAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: BrokerConfigPlan
    done: str | None = None


async def alter(call: Call[None, AlterBrokerBody]) -> AlterBrokerAnswer:
    """Set configs of a broker or of all, or take such values away; the cluster checks the values first."""
    body = call.body
    check_changes(body.changes)
    await check_broker(call, body.id)
    admin = call.identity.clients.admin()
    entries = await _describe(admin, body.id)
    plan = broker_config_plan(body.id, body.scope, body.changes, entries)
    is_one = body.scope == "broker"
    resource = ConfigResource.broker(body.id) if is_one else ConfigResource.all_brokers()
    changes = {resource: alter_configs(body.changes)}
    if body.preview:
        await admin.incremental_alter_configs(changes, validate_only=True)
        return AlterBrokerAnswer(plan)
    check_same(plan.state, body.state)
    await admin.incremental_alter_configs(changes)
    call.console.poller.poll_soon()
    names = ", ".join(each.name for each in body.changes)
    whose = f"broker {body.id}" if is_one else "all brokers"
    return AlterBrokerAnswer(plan, f"changed {names} of {whose}")


ROUTES: Final = [
    Route("GET", "/api/broker/configs", configs, "The configs of a broker", query=BrokerQuery),
    Route(
        "POST",
        "/api/broker/configs",
        alter,
        "Change configs of a broker, or of all brokers",
        body=AlterBrokerBody,
        role=Role.ADMIN,
        is_preview=lambda call: call.body.preview,
    ),
]
