"""Groups on the page: a rebalance drawn while it happens, lags without markers, offsets that are reset as was said."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from tests.console.browser.looks import (
    NARROW,
    assert_accessible,
    assert_no_sideways_scroll,
    screenshot,
)
from tests.console.browser.page_faults import PageFaults
from tests.console.groups.conftest import CLASSIC, SECONDS, GroupCluster, cluster, kafka_jars
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.waiting import in_time

import ottla

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["cluster", "kafka_jars"]

PARTITIONS = 6
BASE_MS = 1_700_000_000_000
NONE = "\u2013"


@pytest.fixture(scope="module")
def url(cluster: GroupCluster) -> Iterator[str]:
    """A console that looks often."""
    with (
        quick_polls(),
        serving(cluster.servers, internals_url=cluster.internals_url) as console,
    ):
        yield console.url.rstrip("/")


class OwnMember:
    """A member with our client, on a thread of its own; while it is held, it does not poll."""

    def __init__(self, servers: str, group: str, topic: str, protocol: str) -> None:
        options = dict(CLASSIC) if protocol == "classic" else {}
        self._consumer = ottla.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "client.id": "ours",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                **options,
            }
        )
        self._topic = topic
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="ours", daemon=True)
        self.generation = -1
        self.partitions: frozenset[int] = frozenset()

    def start(self) -> None:
        self._thread.start()
        self.wait_for(PARTITIONS)

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._is_over:
            self._goes_on.wait()
            self._consumer.poll(0.05)
            self.generation = self._consumer.group_metadata().generation_id
            self.partitions = frozenset(each.partition for each in self._consumer.assignment())
        self._consumer.close()

    def hold(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def wait_for(self, count: int) -> None:
        """Until it has so many partitions."""
        deadline = time.monotonic() + SECONDS
        while len(self.partitions) != count:
            in_time(deadline, f"{len(self.partitions)} of {count} partitions")
            time.sleep(0.02)

    def stop(self) -> None:
        self._is_over = True
        self.go_on()
        self._thread.join(SECONDS)


@contextmanager
def joining(cluster: GroupCluster, group: str, topic: str, protocol: str) -> Iterator[None]:
    """Another member, of librdkafka: it is inside the group only when all others let it."""
    options: dict[str, object] = {} if protocol == "classic" else {"group_protocol": protocol}
    with ExitStack() as stack:
        is_over = threading.Event()
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.servers,
                "group.id": group,
                "client.id": "theirs",
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **(CLASSIC if protocol == "classic" else {}),
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )
        consumer.subscribe([topic])

        def run() -> None:
            while not is_over.is_set():
                consumer.poll(0.05)
            consumer.close()

        thread = threading.Thread(target=run, name="theirs", daemon=True)
        stack.callback(thread.join, SECONDS)
        stack.callback(is_over.set)
        thread.start()
        yield


def rebalance(page: Page, number: str) -> Locator:
    """The row of a rebalance."""
    named = page.locator(".rebalance-number").get_by_text(number, exact=True)
    return page.get_by_role("row").filter(has=named)


def lanes(page: Page) -> dict[str, str]:
    """How many partitions each member that is there is drawn with now."""
    found: dict[str, str] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('main .lane:not(.lane-gone)')].map((lane) =>
          [lane.querySelector('.lane-name').textContent.trim(),
           [...lane.querySelectorAll('.lane-block')].at(-1)?.textContent.trim() ?? '']))"""
    )
    return found


def wait_for_lanes(page: Page, wanted: dict[str, str]) -> None:
    deadline = time.monotonic() + SECONDS
    while lanes(page) != wanted:
        in_time(deadline, f"{lanes(page)} instead of {wanted}")
        page.wait_for_timeout(50)


@pytest.mark.parametrize(
    "protocol", ["classic", pytest.param("consumer", marks=pytest.mark.campaign)]
)
def test_a_rebalance_is_drawn_while_it_happens(
    page: Page, url: str, cluster: GroupCluster, protocol: str, tmp_path: Path
) -> None:
    topic, group = cluster.topic("drawn", PARTITIONS, records=1), cluster.name("drawn")
    word = "Generation" if protocol == "classic" else "Epoch"
    ours = OwnMember(cluster.servers, group, topic, protocol)
    ours.start()
    try:
        page.goto(f"{url}/groups/{group}?tab=rebalances")
        wait_for_lanes(page, {"ours": "6"})
        first = ours.generation
        rebalance(page, f"{word} {first}").get_by_text("ours joined.").wait_for()
        badges = page.locator(".view-name .badge")
        badges.filter(has_text="Stable").wait_for()
        ours.hold()
        with joining(cluster, group, topic, protocol):
            # It cannot end before the member that is held has given up partitions: the page says that it goes on.
            badges.filter(has_text=re.compile("Rebalancing|Reconciling|Assigning")).wait_for()
            screenshot(page, f"rebalance-{protocol}-goes-on", tmp_path)
            ours.go_on()
            wait_for_lanes(page, {"ours": "3", "theirs": "3"})
            badges.filter(has_text="Stable").wait_for()
            ours.wait_for(3)
            assert ours.generation > first
            row = rebalance(page, f"{word} {ours.generation}")
            row.get_by_text("theirs joined.").wait_for()
            cells = row.get_by_role("cell").all_inner_texts()
            assert cells[-3:-1] == ["2", "3"], "two members, and three partitions moved"
            assert_accessible(page)
            screenshot(page, f"rebalance-{protocol}", tmp_path)
        wait_for_lanes(page, {"ours": "6"})
        ours.wait_for(6)
        rebalance(page, f"{word} {ours.generation}").get_by_text("theirs left").wait_for()
        page.set_viewport_size(NARROW)
        assert_no_sideways_scroll(page)
    finally:
        ours.stop()
    badges.filter(has_text="Empty").wait_for()


def first_read(cluster: GroupCluster, group: str, topic: str, partition: int) -> int:
    """The offset at which a stranger's member of the group goes on."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    wanted = confluent_kafka.TopicPartition(topic, partition)
    (at,) = consumer.committed([wanted], SECONDS)
    consumer.assign([at])
    message = consumer.poll(SECONDS)
    assert message is not None
    assert message.error() is None, message.error()
    offset = message.offset()
    consumer.close()
    assert offset is not None
    return offset


def plan_rows(dialog: Locator) -> list[list[str]]:
    """Partition, offset now, offset then, read again, skipped, end."""
    rows = dialog.get_by_role("row").all()[1:]
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_offsets_are_reset_as_the_preview_says(
    page: Page, url: str, cluster: GroupCluster, faults: PageFaults, tmp_path: Path
) -> None:
    faults.allow(r"409 \(Conflict\)")  # the group has members, and then another commit
    topic, group = cluster.topic("reset", 2), cluster.name("reset")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.servers, "linger.ms": 0, "log_level": 0}
    )
    for n in range(20):
        producer.produce(topic, b"%d" % n, partition=n % 2, timestamp=BASE_MS + n * 1000)
    assert producer.flush(SECONDS) == 0
    with cluster.member(group, [topic]):
        page.goto(f"{url}/groups/{group}")
        page.get_by_text("Stable", exact=True).first.wait_for()
        page.get_by_role("button", name="Reset offsets").click()
        dialog = page.get_by_role("dialog", name=f"Reset the offsets of {group}")
        show = dialog.get_by_role("button", name="Show what it does")
        show.click()
        dialog.get_by_role("alert").filter(has_text="stop its consumers first").wait_for()
        page.keyboard.press("Escape")
    cluster.commit(group, {(topic, 0): 10, (topic, 1): 6})
    page.get_by_text("Empty", exact=True).first.wait_for()

    # To a time: what is read again and what is skipped.
    page.get_by_role("button", name="Reset offsets").click()
    dialog.get_by_label("Where it goes on").select_option("time")
    zone_ms = page.evaluate("new Date().getTimezoneOffset() * 60_000")
    local = time.gmtime((BASE_MS + 15_000 - zone_ms) / 1000)
    dialog.get_by_label("Time", exact=True).fill(time.strftime("%Y-%m-%dT%H:%M:%S", local))
    show.click()
    dialog.get_by_text("2 offsets will be read again").wait_for()
    assert plan_rows(dialog) == [
        [f"{topic} 0", "10", "8", "2", NONE, "10"],
        [f"{topic} 1", "6", "7", NONE, "1", "10"],
    ]
    assert_accessible(page)
    screenshot(page, "reset-plan", tmp_path)
    assert cluster.committed(group) == {(topic, 0): 10, (topic, 1): 6}, "nothing is done yet"
    # Meanwhile the group commits something else: the plan is not true any more, and nothing is done.
    commit = dialog.get_by_role("button", name="Commit these offsets")
    cluster.commit(group, {(topic, 0): 9})
    commit.click()
    dialog.get_by_role("alert").filter(has_text="since this was shown").wait_for()
    assert cluster.committed(group) == {(topic, 0): 9, (topic, 1): 6}
    dialog.get_by_role("button", name="Back").click()
    show.click()
    dialog.get_by_text("1 offset will be read again").wait_for()
    commit.click()
    page.get_by_text("goes on from other offsets in 2 partitions").wait_for()
    assert cluster.committed(group) == {(topic, 0): 8, (topic, 1): 7}
    assert first_read(cluster, group, topic, 0) == 8
    assert first_read(cluster, group, topic, 1) == 7
    page.get_by_role("row").filter(has_text=re.compile(rf"{topic} 0")).get_by_text("8").wait_for()

    # So many back, beyond the beginning: the nearest offset that exists.
    page.get_by_role("button", name="Reset offsets").click()
    dialog.get_by_label("Where it goes on").select_option("shift")
    dialog.get_by_label("How many").fill("-100")
    show.click()
    dialog.get_by_text("the nearest that exists is taken").wait_for()
    commit.click()
    dialog.wait_for(state="detached")
    assert cluster.committed(group) == {(topic, 0): 0, (topic, 1): 0}
    assert first_read(cluster, group, topic, 1) == 0


def test_a_group_and_its_offsets_are_deleted_as_the_preview_says(
    page: Page, url: str, cluster: GroupCluster, faults: PageFaults, tmp_path: Path
) -> None:
    faults.allow(r"409 \(Conflict\)")  # the group has a member, and then another commit
    faults.allow(r"404 \(Not Found\)")  # the view asks for the group that is gone
    first, second = cluster.topic("kept", records=4), cluster.topic("dropped", 2, records=4)
    group = cluster.name("deleted")
    with cluster.member(group, [first]):
        page.goto(f"{url}/groups/{group}")
        page.get_by_text("Stable", exact=True).first.wait_for()
        page.get_by_role("button", name="Delete", exact=True).click()
        dialog = page.get_by_role("dialog", name=f"Delete {group}, or its offsets")
        show = dialog.get_by_role("button", name="Show what it does")
        show.click()
        dialog.get_by_role("alert").filter(has_text="stop its consumers first").wait_for()
        page.keyboard.press("Escape")
    page.get_by_text("Empty", exact=True).first.wait_for()
    cluster.commit(group, {(first, 0): 4, (second, 0): 1, (second, 1): 4})
    page.get_by_role("row").filter(has_text=f"{second} 1").wait_for()

    # The offsets in one topic.
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog.get_by_label("What to delete").select_option(second)
    show.click()
    dialog.get_by_text("2 committed offsets are forgotten").wait_for()
    assert plan_rows(dialog) == [
        [f"{second} 0", "1", "4", "3"],
        [f"{second} 1", "4", "4", NONE],
    ]
    assert_accessible(page)
    screenshot(page, "group-delete-offsets", tmp_path)
    confirm = dialog.get_by_role("button", name="Delete the offsets")
    assert confirm.is_disabled(), "its name has to be written"
    dialog.get_by_label(f"Write {group} to confirm").fill(group)
    assert len(cluster.committed(group)) == 3, "nothing is done yet"
    confirm.click()
    page.get_by_text(f"Deleted 2 offsets of {group}").wait_for()
    assert cluster.committed(group) == {(first, 0): 4}

    # The group. Meanwhile it commits something else: nothing is done.
    page.get_by_role("button", name="Delete", exact=True).click()
    show.click()
    dialog.get_by_text("The coordinator forgets the group").wait_for()
    cluster.commit(group, {(first, 0): 3})
    dialog.get_by_label(f"Write {group} to confirm").fill(group)
    confirm = dialog.get_by_role("button", name="Delete the group")
    confirm.click()
    dialog.get_by_role("alert").filter(has_text="since this was shown").wait_for()
    assert cluster.committed(group) == {(first, 0): 3}
    dialog.get_by_role("button", name="Back").click()
    show.click()
    dialog.get_by_label(f"Write {group} to confirm").fill(group)
    page.set_viewport_size(NARROW)
    assert_no_sideways_scroll(page)
    confirm.click()
    page.get_by_role("heading", level=1, name="Groups").wait_for()
    assert cluster.committed(group) == {}
    page.goto(f"{url}/groups?q={group}")
    page.get_by_text("Nothing fits the search").wait_for()


def test_a_lag_of_markers_is_no_lag_and_lags_have_a_history(
    page: Page, url: str, cluster: GroupCluster
) -> None:
    topic, group = cluster.topic("marked"), cluster.name("marked")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.servers, "transactional.id": group, "log_level": 0}
    )
    producer.init_transactions(SECONDS)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.commit_transaction(SECONDS)
    cluster.commit(group, {(topic, 0): 3})
    page.goto(f"{url}/groups?q={group}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=group, exact=True))
    row.get_by_title("The other 1 offset: markers of transactions").wait_for()
    row.get_by_role("link", name=group, exact=True).click()
    page.get_by_role("button", name="Count the records").click()
    page.get_by_text("The group has read everything").wait_for()
    # Behind by a record: one of the two offsets is a marker.
    cluster.commit(group, {(topic, 0): 2})
    page.get_by_text("1 record: the other 1 offset").or_(
        page.get_by_role("button", name="Count again")
    ).first.wait_for()
    page.get_by_role("row").filter(has_text=topic).get_by_text("2", exact=True).first.wait_for()
    page.get_by_role("button", name="Count again").click()
    page.get_by_text("1 record: the other 1 offset").wait_for()
    # The history has both lags, in means of its steps.
    page.wait_for_function(
        """async (id) => {
          const { lag } = await (await fetch(`/api/group/history?id=${id}`)).json();
          return lag.includes(1) && lag.some((each) => each > 1);
        }""",
        arg=group,
    )
    page.get_by_role("region", name="Lag over time").locator("canvas").first.wait_for()
