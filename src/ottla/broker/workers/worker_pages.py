"""The pages of all workers as one: metrics, health, internals and events, which the supervisor serves.

No page waits for a worker that hangs: what it has not told in time is missing, and a gauge says so. Until it has
answered, later pages do not wait for it at all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from ottla.broker.internals.event_ring import EventRing
from ottla.broker.internals.internals_page import (
    EVENTS_PATH,
    INTERNALS_PATH,
    JSON,
    MAX_EVENTS,
    numbers_of,
)
from ottla.broker.metrics.broker_metrics import add_process
from ottla.broker.metrics.listener import HEALTH_PATH, Find, Reply, text_reply
from ottla.broker.metrics.pages import HEALTHY, METRICS_PATH, PAGE_SECONDS
from ottla.broker.workers.merged_internals import MergedEvents, merged_internals
from ottla.broker.workers.messages import PAGES
from ottla.broker.workers.supervisor import Supervisor
from ottla.events import EventLog
from ottla.exposition import CONTENT_TYPE, Metric, Page, merged_pages

logger = EventLog(__name__)

# Scrapers wait for ten seconds.
ANSWER_SECONDS: Final = 2.0
LARGEST_PAGE_BYTES: Final = 256 << 20
_READ_BYTES: Final = 1 << 18

WORKER_UP: Final = Metric(
    "ottla_worker_up",
    "gauge",
    "Whether the series of a worker are on this page; 0 while it is started again, or does not answer.",
)
RESTARTS: Final = Metric(
    "ottla_worker_restarts_total", "counter", "How often a worker was started again."
)
SUPERVISOR_LABEL: Final = "supervisor"


class PageError(Exception):
    """A worker has answered what is no page."""


class _Question(NamedTuple):
    answer: asyncio.Task[bytes | None]
    deadline: float


class WorkerPages:
    """Finds a page by its path."""

    def __init__(self, supervisor: Supervisor, ring: EventRing) -> None:
        self._supervisor = supervisor
        self._questions: dict[int, dict[str, _Question]] = {}
        self._events = MergedEvents(ring)
        self._looking = asyncio.Lock()
        self._state = "starting"
        self._cached: bytes | None = None
        self._collecting = asyncio.Lock()

    def serving(self) -> None:
        """From now on the broker is healthy while all of its workers are."""
        self._state = HEALTHY

    def stopping(self) -> None:
        """From now on it is not: it accepts no more requests."""
        self._state = "stopping"

    async def find(self, path: str, query: str) -> Reply:
        """The page at a path, as that of a broker of one process."""
        if path != HEALTH_PATH and self._state == "starting":
            return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, self._state)
        if path == METRICS_PATH:
            return Reply(HTTPStatus.OK, CONTENT_TYPE, await self._metrics())
        if path == HEALTH_PATH:
            return self._health()
        if path in (INTERNALS_PATH, EVENTS_PATH):
            if path == INTERNALS_PATH:
                return Reply(HTTPStatus.OK, JSON, await self._internals())
            try:
                after, limit = numbers_of(query)
            except ValueError as error:
                return text_reply(HTTPStatus.BAD_REQUEST, str(error))
            return Reply(HTTPStatus.OK, JSON, await self._newest_events(after, limit))
        paths = f"{METRICS_PATH}, {INTERNALS_PATH}, {EVENTS_PATH} and {HEALTH_PATH}"
        return text_reply(HTTPStatus.NOT_FOUND, f"there are {paths}")

    def for_strangers(self, reason: str | None) -> Find:
        """As `find`; if there is a reason why nobody gets the internals there, that is told instead."""
        if reason is None:
            return self.find

        async def find(path: str, query: str) -> Reply:
            if path in (INTERNALS_PATH, EVENTS_PATH):
                return text_reply(HTTPStatus.FORBIDDEN, reason)
            return await self.find(path, query)

        return find

    def _health(self) -> Reply:
        if self._state != HEALTHY:
            return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, self._state)
        lost = [str(each.node_id) for each in self._supervisor.members.values() if not each.is_live]
        if lost:
            text = f"not running: node {', '.join(lost)}"
            return text_reply(HTTPStatus.SERVICE_UNAVAILABLE, text)
        return text_reply(HTTPStatus.OK, HEALTHY)

    # Metrics.

    async def _metrics(self) -> bytes:
        async with self._collecting:
            if self._cached is None:
                found = await self._ask_all(METRICS_PATH)
                own = Page(node=SUPERVISOR_LABEL)
                for node_id in self._supervisor.members:
                    label = str(node_id)
                    own.add(WORKER_UP, found[node_id] is not None, node=label)
                    own.add(RESTARTS, self._supervisor.restarts_of(node_id), node=label)
                add_process(own)
                told = [page for page in found.values() if page is not None]
                self._cached = b"".join([part async for part in _merged([own.render(), *told])])
                asyncio.get_running_loop().call_later(PAGE_SECONDS, self._let_go)
            return self._cached

    def _let_go(self) -> None:
        self._cached = None

    # Internals.

    async def _internals(self) -> bytes:
        found = await self._ask_all(INTERNALS_PATH)
        sections = {}
        for node_id, page in found.items():
            sections[node_id] = None if page is None else json.loads(page)
            await asyncio.sleep(0)
        merged = merged_internals(
            sections,
            cluster_id=self._supervisor.cluster_id,
            restarts={node_id: self._supervisor.restarts_of(node_id) for node_id in sections},
        )
        return f"{json.dumps(merged)}\n".encode()

    async def _newest_events(self, after: int, limit: int) -> bytes:
        async with self._looking:
            asked = {
                node_id: f"{EVENTS_PATH}?after={newest}&limit={MAX_EVENTS}"
                for node_id in self._supervisor.members
                for newest in [self._events.newest_of(node_id)]
            }
            for node_id, page in (await self._ask(asked)).items():
                if page is not None and self._events.add(node_id, json.loads(page)):
                    # The worker was started again, and its numbers begin anew.
                    again = {node_id: f"{EVENTS_PATH}?after=0&limit={MAX_EVENTS}"}
                    first = (await self._ask(again))[node_id]
                    if first is not None:
                        self._events.add(node_id, json.loads(first))
            return self._events.page(after, limit)

    # Asking.

    async def _ask_all(self, target: str) -> dict[int, bytes | None]:
        return await self._ask(dict.fromkeys(self._supervisor.members, target))

    async def _ask(self, targets: Mapping[int, str]) -> dict[int, bytes | None]:
        """The pages of workers, or None for those that do not tell theirs in time."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiting: dict[int, _Question] = {}
        for node_id, target in targets.items():
            asked = self._questions.setdefault(node_id, {})
            if any(each.deadline <= now for each in asked.values()):
                continue  # it hangs
            question = asked.get(target)
            if question is None:
                task = loop.create_task(self._fetch(node_id, target))
                question = asked[target] = _Question(task, now + ANSWER_SECONDS)
                task.add_done_callback(partial(_forget, asked, target))
            waiting[node_id] = question
        if waiting:
            last = max(each.deadline for each in waiting.values())
            tasks = [each.answer for each in waiting.values()]
            await asyncio.wait(tasks, timeout=last - now)
        return {
            node_id: waiting[node_id].answer.result()
            if node_id in waiting and waiting[node_id].answer.done()
            else None
            for node_id in targets
        }

    async def _fetch(self, node_id: int, target: str) -> bytes | None:
        """A page of a worker; None if that is not live. A worker that hangs ends its connection when it is killed."""
        try:
            connected = self._supervisor.connect(node_id, PAGES)
            reader, writer = await asyncio.open_connection(sock=connected, limit=_READ_BYTES)
        except OSError:
            return None
        try:
            writer.write(f"GET {target} HTTP/1.1\r\n\r\n".encode("ascii"))
            return _body(await _read_all(reader))
        except OSError:
            return None
        except PageError as error:
            logger.bug("worker_page_failed", "a page of a worker failed: this is a bug", error)
            return None
        finally:
            writer.transport.abort()

    async def stop(self) -> None:
        """Ask nothing more."""
        tasks = [each.answer for asked in self._questions.values() for each in asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _forget(asked: dict[str, _Question], target: str, _: object) -> None:
    asked.pop(target, None)


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    size = 0
    while piece := await reader.read(_READ_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_PAGE_BYTES:
            raise PageError(f"it has more than {LARGEST_PAGE_BYTES} bytes")
    return b"".join(pieces)


def _body(answer: bytes) -> bytes | None:
    """The body of a whole answer; None if the worker has ended in the middle of it."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        return None
    lines = head.split(b"\r\n")
    if lines[0].split(b" ")[1:2] != [b"200"]:
        raise PageError(f"it is {lines[0][:100]!r}")
    for line in lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return body if len(body) == int(value) else None
    raise PageError("it has no length")


async def _merged(pages: Iterable[bytes]) -> AsyncIterator[bytes]:
    for number, part in enumerate(merged_pages(pages)):
        yield part
        if number % 20 == 19:
            await asyncio.sleep(0)  # the supervisor's loop goes on
