"""Asks the broker for its internals: often while a browser looks, seldom otherwise."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from ottla.console.http.live import LiveEvents
from ottla.console.http.routes import ServerEvent
from ottla.console.internals.metric_samples import MetricSample, metric_samples
from ottla.console.internals.page_client import InternalsClient
from ottla.console.internals.report import BrokerReport
from ottla.console.internals.request_rates import BrokerRates, rates_between
from ottla.errors import OttlaError
from ottla.events import EventLog

logger = EventLog(__name__)

WATCHED_SECONDS: Final = 2.0
UNWATCHED_SECONDS: Final = 30.0
# The broker itself answers from memory for twenty times as long as an answer took.
MAX_SHARE: Final = 1 / 20
METRICS_SECONDS: Final = 2.0
# A quarter of an hour while a browser looks.
MAX_SAMPLES: Final = 450


@dataclass(frozen=True)
class ToldInternals:
    """What the broker told last."""

    report: BrokerReport
    rates: BrokerRates | None
    """Since the report before; None after a start of the broker or of the console."""


class BrokerInternals:
    """The newest report, and how busy the broker was; one for all browsers."""

    def __init__(self, client: InternalsClient | None, live: LiveEvents) -> None:
        self._client = client
        self._live = live
        self._task: asyncio.Task[None] | None = None
        self._latest: ToldInternals | None = None
        self._problem: str | None = None
        self._samples: deque[BrokerRates] = deque(maxlen=MAX_SAMPLES)
        self._asking = asyncio.Lock()
        self._metrics: tuple[MetricSample, ...] = ()
        self._metrics_until = 0.0

    @property
    def is_offered(self) -> bool:
        """Whether there is a broker to ask; other clusters tell nothing beyond Kafka's protocol."""
        return self._client is not None

    @property
    def latest(self) -> ToldInternals | None:
        """The newest report; None if there is none yet, or the broker does not answer now."""
        return None if self._problem is not None else self._latest

    @property
    def problem(self) -> str | None:
        """Why the broker does not answer."""
        return self._problem

    @property
    def samples(self) -> Sequence[BrokerRates]:
        """The rates of the last reports, the oldest first; without those of APIs, but for the newest."""
        return self._samples

    def measured(self) -> dict[str, float | None]:
        """What the newest report says of the cluster's history, by the names of its totals."""
        latest = self.latest
        rates = None if latest is None else latest.rates
        if rates is None:
            return {}
        return {
            "requests_per_second": rates.requests_per_second,
            "errors_per_second": rates.errors_per_second,
            "request_p50_ms": rates.median_ms,
            "request_p99_ms": rates.p99_ms,
            "received_bytes_per_second": rates.received_bytes_per_second,
            "sent_bytes_per_second": rates.sent_bytes_per_second,
        }

    async def metrics(self) -> tuple[MetricSample, ...]:
        """The metrics that the broker has now, or had a moment ago; for brokers that are asked."""
        assert self._client is not None
        async with self._asking:
            if time.monotonic() >= self._metrics_until:
                began = time.monotonic()
                text = await self._client.metrics()
                self._metrics = tuple(await asyncio.to_thread(metric_samples, text))
                took = time.monotonic() - began
                self._metrics_until = time.monotonic() + max(METRICS_SECONDS, took / MAX_SHARE)
            return self._metrics

    def start(self) -> None:
        """Begin."""
        if self._client is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(self._client))

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, client: InternalsClient) -> None:
        while True:
            began = time.monotonic()
            try:
                self._add(await client.report())
            except OttlaError as error:
                self._problem = str(error)
            except Exception as error:
                self._problem = (
                    "the console failed to read the broker's internals: its log says more"
                )
                logger.bug("internals_failed", "internals cannot be read: a bug", error)
            self._live.send(ServerEvent("internals", {"problem": self._problem}), is_state=True)
            pause = max(WATCHED_SECONDS, (time.monotonic() - began) / MAX_SHARE)
            await asyncio.sleep(pause)
            if not self._live.watcher_count:
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._live.wait_for_watcher(), max(0.0, UNWATCHED_SECONDS - pause)
                    )

    def _add(self, report: BrokerReport) -> None:
        before = None if self._latest is None else self._latest.report
        if (
            before is not None
            and before.instance == report.instance
            and before.at_ms == report.at_ms
        ):
            self._problem = None
            return
        rates = rates_between(before, report)
        self._latest = ToldInternals(report, rates)
        self._problem = None
        if rates is not None:
            if self._samples:
                self._samples[-1] = replace(self._samples[-1], apis=())
            self._samples.append(rates)
