"""The live tail on the page: 1,000 records a second, of which none is lost, shown twice or hidden in silence."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.console.browser.records_page import drawn_values, open_records
from tests.console.records.conftest import RecordCluster, cluster, kafka_jars, write
from tests.console.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page, ViewportSize

__all__ = ["cluster", "kafka_jars"]

RATE = 1_000
PARTITIONS = 3
SECONDS = 30
TICK_SECONDS = 0.05
# More than that takes long to be scrolled through.
MAX_LISTED = 20_000
MAX_HEAP_MIB = 150
HIGH: ViewportSize = {"width": 1280, "height": 8_000}
# Long tasks, frames and the heap of the page while it shows what comes in.
_WATCH = """() => {
  const found = (window.watched = { tasks: [], frames: [], heap: [] });
  new PerformanceObserver((list) => found.tasks.push(...list.getEntries().map((each) => each.duration)))
    .observe({ type: 'longtask', buffered: false });
  let last = performance.now();
  const frame = (now) => {
    found.frames.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  setInterval(() => found.heap.push(performance.memory.usedJSHeapSize), 250);
}"""
# Every record of the list, also those out of sight: by scrolling through it.
_ALL = """async () => {
  const list = document.querySelector('main .virtual');
  const seen = new Map();
  const painted = () => new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  for (let top = 0; ; top += list.clientHeight - 64) {
    list.scrollTop = top;
    await painted();
    await painted();
    for (const row of list.querySelectorAll('tbody tr:not(.virtual-space)')) {
      seen.set(row.getAttribute('aria-rowindex'), row.cells[4].textContent.trim());
    }
    if (top >= list.scrollHeight) break;
  }
  return [...seen.values()];
}"""


@pytest.fixture(scope="module")
def console_url(cluster: RecordCluster) -> Iterator[str]:
    with serving(cluster.servers) as console:
        yield console.url


@dataclass
class Flow:
    """Records 0, 1, … into all partitions, RATE a second, until it is stopped."""

    producer: Producer
    topic: str
    sent_count: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        began = time.monotonic()
        while not self._is_over.wait(TICK_SECONDS):
            while self.sent_count < (time.monotonic() - began) * RATE:
                n = self.sent_count
                value = f'{{"n": {n}, "sku": "TEA-{n % 7}"}}'
                self.producer.produce(self.topic, value, f"k-{n}", partition=n % PARTITIONS)
                self.sent_count += 1
            self.producer.poll(0)

    def stop(self) -> None:
        self._is_over.set()


@contextmanager
def flowing(cluster: RecordCluster, topic: str) -> Iterator[Flow]:
    """A flow until the block is left; then all of it is acknowledged."""
    flow = Flow(cluster.producer(linger_ms=20), topic)
    thread = threading.Thread(target=flow.run, name="flow")
    thread.start()
    try:
        yield flow
    finally:
        flow.stop()
        thread.join(SECONDS)
        assert flow.producer.flush(SECONDS) == 0


def number(page: Page, name: str) -> int:
    """A count of the page; 0 if it is not shown."""
    found = page.locator(f"[data-count={name}]")
    return int(found.inner_text().replace(",", "")) if found.count() else 0


def wait_for_total(page: Page, count: int) -> None:
    """Until the page accounts for so many records."""
    deadline = time.monotonic() + SECONDS
    while accounted(page) < count:
        assert time.monotonic() < deadline, f"{accounted(page)} of {count} records"
        page.wait_for_timeout(100)


def accounted(page: Page) -> int:
    """The records that the page has shown, or says that it has left out."""
    return sum(number(page, name) for name in ("received", "left-out", "skipped"))


@dataclass(frozen=True)
class Strain:
    """What the tail costs the page."""

    seconds: float
    record_count: int
    cpu_seconds: float
    """Of the page's main thread."""
    frame_median_ms: float
    longest_task_ms: float
    heap_mib: float

    def __str__(self) -> str:
        return (
            f"{self.record_count} records in {self.seconds:.1f} s: {self.cpu_seconds:.2f} s of CPU in the page, "
            f"frames {self.frame_median_ms:.0f} ms apart, the longest task {self.longest_task_ms:.0f} ms, "
            f"heap {self.heap_mib:.0f} MiB"
        )


@contextmanager
def strained(page: Page) -> Iterator[Callable[[int], Strain]]:
    """Measures the page; the function takes the number of records, and gives what they have cost so far."""
    page.evaluate(_WATCH)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    began, before = time.monotonic(), cpu_seconds(session)

    def measure(record_count: int) -> Strain:
        found: dict[str, list[float]] = page.evaluate("window.watched")
        return Strain(
            seconds=time.monotonic() - began,
            record_count=record_count,
            cpu_seconds=cpu_seconds(session) - before,
            frame_median_ms=statistics.median(found["frames"]),
            longest_task_ms=max(found["tasks"], default=0.0),
            heap_mib=max(found["heap"]) / (1 << 20),
        )

    yield measure
    session.detach()


def cpu_seconds(session: CDPSession) -> float:
    """What the page's main thread has used."""
    found = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in found if each["name"] == "TaskDuration")


@pytest.mark.parametrize(
    "seconds", [2.0, pytest.param(30.0, marks=pytest.mark.campaign)], ids=["short", "long"]
)
def test_a_thousand_records_a_second_are_all_accounted_for(
    page: Page, console_url: str, cluster: RecordCluster, seconds: float
) -> None:
    topic = cluster.topic("busy", PARTITIONS)
    open_records(page, console_url, topic, mode="live")
    with strained(page) as strain, flowing(cluster, topic) as flow:
        page.wait_for_timeout(seconds * 500)
        # A pause keeps the place: what came in meanwhile follows.
        page.get_by_role("button", name="Pause").click()
        page.locator(".live-state", has_text="Paused").wait_for()
        paused_at, before = number(page, "received"), drawn_values(page)
        page.wait_for_timeout(700)
        assert (number(page, "received"), drawn_values(page)) == (paused_at, before)
        assert flow.sent_count > paused_at
        page.get_by_role("button", name="Resume").click()
        page.locator(".live-state-on").wait_for()
        page.wait_for_timeout(seconds * 500)
        # The end is in sight, without a stop.
        assert json.loads(drawn_values(page)[-1])["n"] > paused_at
        cost = strain(flow.sent_count)
    print(cost)
    wait_for_total(page, flow.sent_count)
    assert number(page, "received") == accounted(page) == flow.sent_count, "none is left out"
    if flow.sent_count < MAX_LISTED:
        page.set_viewport_size(HIGH)  # many rows at a time
        shown = [json.loads(value)["n"] for value in page.evaluate(_ALL)]
        assert sorted(shown) == list(range(flow.sent_count)), "each of them is in the list once"
    assert cost.cpu_seconds < 0.5 * cost.seconds, f"the page has no time for its user: {cost}"
    assert cost.heap_mib < MAX_HEAP_MIB, cost


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_what_a_page_holds_is_bounded(page: Page, console_url: str, cluster: RecordCluster) -> None:
    """More than the page keeps: the oldest go, and the page says how many."""
    topic = cluster.topic("endless", PARTITIONS)
    open_records(page, console_url, topic, mode="live")
    producer = cluster.producer(linger_ms=50)
    count = 0
    with strained(page) as strain:
        while count < 130_000:
            for _ in range(1_000):
                producer.produce(topic, f'{{"n": {count}, "text": "{"x" * 100}"}}', partition=0)
                count += 1
            assert producer.flush(SECONDS) == 0
            wait_for_total(page, count - 3_000)
        wait_for_total(page, count)
        cost = strain(count)
    print(cost)
    assert number(page, "received") == count
    page.get_by_text(f"the oldest {count - 100_000:,} let go").wait_for()
    assert f'"n": {count - 1},' in drawn_values(page)[-1]
    assert cost.heap_mib < 4 * MAX_HEAP_MIB, cost


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_a_flood_is_shown_in_part_and_all_of_it_is_counted(
    page: Page, console_url: str, cluster: RecordCluster
) -> None:
    """As fast as a producer can: rows are left out and offsets are skipped, and the page stays usable."""
    topic = cluster.topic("flood", PARTITIONS)
    open_records(page, console_url, topic, mode="live")
    producer = cluster.producer(linger_ms=50, compression_type="lz4")
    count = 300_000
    with strained(page) as strain:
        for n in range(count):
            while True:
                try:
                    producer.produce(topic, f"value-{n}", partition=n % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(SECONDS) == 0
        wait_for_total(page, count)
        cost = strain(count)
    print(cost)
    assert accounted(page) == count
    page.get_by_text("left out: too many at a time").or_(
        page.get_by_text("skipped: too far behind")
    ).first.wait_for()
    assert cost.heap_mib < 2 * MAX_HEAP_MIB, cost


@pytest.mark.campaign
def test_a_filter_and_transactions_in_the_live_tail(
    page: Page, console_url: str, cluster: RecordCluster
) -> None:
    topic = cluster.topic("filtered")
    open_records(
        page,
        console_url,
        topic,
        mode="live",
        filter=["value.n >= 90"],
        control="true",
        aborted="true",
    )
    producer = cluster.producer()
    for n in range(100):
        producer.produce(topic, f'{{"n": {n}}}', partition=0)
    assert producer.flush(SECONDS) == 0
    page.get_by_text("of 100 scanned").wait_for()
    assert [json.loads(each)["n"] for each in drawn_values(page)] == list(range(90, 100))
    open_records(page, console_url, topic, mode="live", control="true", aborted="true")
    with cluster.transactional() as writer:
        write(writer, topic, "gone")
        writer.abort_transaction(SECONDS)
    page.locator("main .virtual .badge").nth(1).wait_for()
    assert [each.split(" of producer")[0] for each in drawn_values(page)] == [
        "aborted gone",
        "control abort",
    ]
