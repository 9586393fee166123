"""The routes of all views."""

from __future__ import annotations

from typing import Final

from ottla.console.api import (
    apps,
    broker,
    group_delete,
    group_rebalances,
    group_reset,
    groups,
    overview,
    pipelines,
    producers,
    record_produce,
    records,
    schemas,
    session,
    topic_changes,
    topic_configs,
    topic_groups,
    topics,
    transactions,
)
from ottla.console.api.openapi import with_openapi
from ottla.console.http.routes import Route

ALL_ROUTES: Final[list[Route]] = with_openapi(
    [
        *session.ROUTES,
        *overview.ROUTES,
        *topics.ROUTES,
        *topic_changes.ROUTES,
        *topic_configs.ROUTES,
        *topic_groups.ROUTES,
        *records.ROUTES,
        *record_produce.ROUTES,
        *groups.ROUTES,
        *group_rebalances.ROUTES,
        *group_reset.ROUTES,
        *group_delete.ROUTES,
        *transactions.ROUTES,
        *producers.ROUTES,
        *apps.ROUTES,
        *pipelines.ROUTES,
        *schemas.ROUTES,
        *broker.ROUTES,
    ]
)
