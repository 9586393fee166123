"""Schemas from the page: a version that is refused with the registry's reasons, and one that is registered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from tests.console.browser.looks import (
    NARROW,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
    use_theme,
)
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving

import ottla
from ottla.admin import NewTopic

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPIC = "orders"
SUBJECT = f"{TOPIC}-value"


def order(*fields: dict[str, object]) -> str:
    first = {"name": "id", "type": "string", "doc": "<b>its number</b>"}
    return json.dumps({"type": "record", "name": "Order", "fields": [first, *fields]})


def test_an_incompatible_version_is_refused_and_a_compatible_one_is_registered(
    page: Page, broker: ottla.Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
    with (
        quick_polls(),
        ottla.SchemaRegistry(bootstrap_servers=servers) as registry,
        serving(servers, registry_url=registry.url) as console,
        httpx.Client(base_url=registry.url, timeout=30) as http,
    ):
        assert http.post(f"/subjects/{SUBJECT}/versions", json={"schema": order()}).is_success
        page.goto(console.url.rstrip("/") + "/schemas")
        page.get_by_role("link", name=TOPIC, exact=True).wait_for()
        assert_accessible(page)
        screenshot(page, "schemas", tmp_path)
        page.get_by_role("link", name=SUBJECT).click()
        page.get_by_role("heading", level=1, name=SUBJECT).wait_for()
        page.get_by_text('"<b>its number</b>"').wait_for()

        page.get_by_role("button", name="New version").click()
        dialog = page.get_by_role("dialog", name=f"A new version of {SUBJECT}")
        text = dialog.get_by_role("textbox", name="Schema")
        text.fill(order({"name": "total", "type": "long"}))
        dialog.get_by_text("Not compatible.").wait_for()
        dialog.get_by_text("READER_FIELD_MISSING_DEFAULT_VALUE").first.wait_for()
        register = dialog.get_by_role("button", name="Register")
        assert register.is_disabled()
        assert_accessible(page)
        screenshot(page, "schema-refused", tmp_path)
        text.fill("{")
        dialog.get_by_text("The registry cannot read this schema.").wait_for()
        text.fill(order({"name": "total", "type": "long", "default": 0}))
        dialog.get_by_text("It becomes version 2").wait_for()
        dialog.get_by_role("button", name="Register as version 2").click()
        dialog.wait_for(state="detached")
        page.get_by_role("heading", level=2, name="Version 2").wait_for()
        assert http.get(f"/subjects/{SUBJECT}/versions").json() == [1, 2]

        page.get_by_role("link", name="Difference").click()
        page.get_by_text('"name": "total",').wait_for()
        assert_accessible(page)
        use_theme(page, "dark")
        page.set_viewport_size(NARROW)
        assert_no_sideways_scroll(page)
        assert_accessible(page)
        screenshot(page, "schema-difference-narrow-dark", tmp_path)

        # Who deletes is told what uses it, and writes the name where it is for good.
        page.get_by_role("button", name="Delete subject").click()
        dialog = page.get_by_role("dialog", name=f"Delete {SUBJECT}")
        dialog.get_by_text("orders, 0 records").wait_for()
        dialog.get_by_role("checkbox", name="Delete it for good").check()
        dialog.get_by_text("cannot be undone").wait_for()
        assert dialog.get_by_role("button", name="Delete for good").is_disabled()
        dialog.get_by_role("textbox").fill(SUBJECT)
        dialog.get_by_role("button", name="Delete for good").click()
        page.get_by_text("No subjects").wait_for()
        assert http.get("/subjects?deleted=true").json() == []
        # The console must not end before the page that listens to it.
        page.goto("about:blank")
