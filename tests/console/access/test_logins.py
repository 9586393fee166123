"""Logging in and out, with users of a real cluster and with tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.running_console import log_in, running_console
from tests.console.users import ADMIN, OPERATOR, VIEWER, user

import ottla
from ottla.admin import AclOperation

TOKEN = "a-token-of-thirty-two-characters"


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(security="scram") as found:
        yield found


def settings(broker: ottla.Broker) -> dict[str, Any]:
    return {"login_options": broker.client_options()}


@pytest.mark.parametrize(
    ("operations", "role"),
    [(VIEWER, "viewer"), (OPERATOR, "operator"), (ADMIN, "admin")],
)
def test_the_role_follows_from_the_rights_on_the_cluster(
    broker: ottla.Broker, operations: tuple[AclOperation, ...], role: str
) -> None:
    form = user(broker, f"role-{role}", *operations)

    async def ask() -> None:
        async with (
            running_console(broker.client_options(), **settings(broker)) as console,
            console.browser() as browser,
        ):
            before = (await browser.get("/api/session")).json()
            assert before["needs_login"]
            assert before["logins"] == ["password"]
            assert (before["user"], before["token"]) == (None, None)
            found = await log_in(browser, **form)
            assert (found["user"], found["role"]) == (form["user"], role)
            assert (await browser.get("/api/session")).json() == found
            assert (await browser.post("/api/logout")).status_code == 204
            assert (await browser.get("/api/session")).json()["needs_login"]

    asyncio.run(ask())
