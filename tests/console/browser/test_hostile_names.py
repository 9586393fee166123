"""Names that clients choose at will: groups, transactions and clients can be called anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.console.browser.looks import NARROW, assert_no_sideways_scroll
from tests.console.browser.page_walks import open_address, settle
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla
from ottla.admin import NewTopic

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPIC = "orders"
NAMES = (
    "<img src=x onerror=alert(1)>",
    "</title></script><h1>Overview</h1>",
    "a/b/../c?q=1&tab=members#content",
    "50% off + more",
    "\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd",
    "${7*7} {{7*7}} %00 \\u0000",
    "w" * 240,
)
SECONDS = 20
TIMEOUT_MS = 15 * 60_000


@pytest.fixture(scope="module")
def console_url() -> Iterator[str]:
    """A cluster whose groups, open transactions and clients have these names."""
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker(LASTING))
        servers = broker.bootstrap_servers
        admin = stack.enter_context(ottla.Admin(bootstrap_servers=servers))
        admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
        for name in NAMES:
            admin.alter_consumer_group_offsets(name, {(TOPIC, 0): 0})
            producer = stack.enter_context(
                ottla.Producer(
                    bootstrap_servers=servers,
                    transactional_id=name,
                    client_id=name,
                    # The transactions stay open however long the tests take.
                    transaction_timeout_ms=TIMEOUT_MS,
                )
            )
            producer.init_transactions()
            producer.begin_transaction()
            stack.callback(producer.abort_transaction)
            producer.send(TOPIC, value=name.encode(), key=name.encode()).result(SECONDS)
        member = stack.enter_context(
            ottla.Consumer(bootstrap_servers=servers, group_id="members", client_id=NAMES[0])
        )
        member.subscribe([TOPIC])
        member.poll(1.0)
        yield stack.enter_context(serving(servers)).url


@pytest.mark.parametrize(
    "place", ["groups", pytest.param("transactions", marks=pytest.mark.campaign)]
)
def test_any_name_is_shown_as_it_is_and_has_an_address(
    page: Page, console_url: str, place: str
) -> None:
    """The list names each; its link leads to the view of that name, which can be loaded again."""
    page.set_viewport_size(NARROW)
    open_address(page, console_url, f"/{place}")
    links = page.locator("main table").get_by_role("link")
    addresses = {link.inner_text(): link.get_attribute("href") or "" for link in links.all()}
    assert set(NAMES) <= set(addresses)
    for name in NAMES:
        page.locator("main table").get_by_role("link", name=name, exact=True).first.click()
        heading = page.locator("main h1")
        page.wait_for_function("() => location.pathname.split('/').length === 3")
        settle(page)
        assert heading.inner_text() == name
        page.reload()
        settle(page)
        assert heading.inner_text() == name
        assert_no_sideways_scroll(page)
        assert page.locator("main img").count() == 0
        page.go_back()
        settle(page)


@pytest.mark.campaign
def test_names_of_members_and_records_are_texts(page: Page, console_url: str) -> None:
    for path in ("/groups/members?tab=members", f"/topics/{TOPIC}/records", "/producers", "/"):
        open_address(page, console_url, path)
        assert page.locator("main img, main h1 + h1").count() == 0
        assert_no_sideways_scroll(page)
