"""Finds the pipelines of a cluster and asks for their progress: for all browsers at once, and not too often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.model import OffsetAndMetadata
from ottla.console.clients import Clients
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.pipelines.states import PipelineFacts, PipelineMarker, markers_of
from ottla.console.transactions.coordinators import TransactionalIdLister, describe_existing
from ottla.console.transactions.journal import TransactionJournal
from ottla.errors import OttlaError, PartialFailureError
from ottla.model import TopicPartition
from ottla.spark.sink.progress import (
    marker_group,
    pipeline_of_marker_group,
    pipeline_of_transactional_id,
)

MAX_PIPELINES: Final = 500
MIN_AGE_SECONDS: Final = 2.0
MAX_SHARE: Final = 1 / 20

Stored = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class FoundPipelines:
    """The pipelines by name, and what could not be asked."""

    pipelines: Mapping[str, PipelineFacts]
    problems: tuple[str, ...] = ()


class _Seen(NamedTuple):
    """The progress of a pipeline when the console last saw it change."""

    marker: PipelineMarker
    position: int
    """The sum of the source's offsets."""
    at_ms: int | None
    """None for the first look, which does not tell when it had changed."""
    input_count: int | None


class PipelineLister:
    """Knows the pipelines; asks the cluster when it is asked itself."""

    def __init__(
        self,
        clients: Clients,
        poller: ClusterPoller,
        ids: TransactionalIdLister,
        journal: TransactionJournal,
    ) -> None:
        self._clients = clients
        self._poller = poller
        self._ids = ids
        self._journal = journal
        self._seen: dict[str, _Seen] = {}
        self._latest = FoundPipelines({})
        self._fresh_until = 0.0
        self._asking = asyncio.Lock()

    async def pipelines(self) -> FoundPipelines:
        """All pipelines."""
        async with self._asking:
            began = time.monotonic()
            if began >= self._fresh_until:
                self._latest = await self._find(self._poller.current())
                took = time.monotonic() - began
                self._fresh_until = began + max(MIN_AGE_SECONDS, took / MAX_SHARE)
            return self._latest

    async def _find(self, snapshot: ClusterSnapshot) -> FoundPipelines:
        listed = await self._ids.ids()
        known = {pipeline_of_transactional_id(name) for name in listed.listings}
        marked = {pipeline_of_marker_group(group) for group in snapshot.groups}
        names = sorted({name for name in known | marked if name})
        problems = list(listed.problems)
        if len(names) > MAX_PIPELINES:
            problems.append(f"only the first {MAX_PIPELINES} of {len(names)} pipelines are shown")
        some = names[:MAX_PIPELINES]
        stored = await self._stored(some, problems)
        facts = {
            name: PipelineFacts(
                name,
                markers=markers_of(name, stored.get(marker_group(name), {})),
                offsets=stored.get(name, {}),
            )
            for name in some
        }
        # Groups of other programs may have such names; pipelines have a marker or an id of their own.
        ours = {name: each for name, each in facts.items() if each.markers or name in known}
        return FoundPipelines(await self._completed(ours, snapshot, problems), tuple(problems))

    async def _stored(self, names: Sequence[str], problems: list[str]) -> Mapping[str, Stored]:
        """The offsets of the groups of pipelines, with their metadata."""
        groups = [group for name in names for group in (name, marker_group(name))]
        if not groups:
            return {}
        found: Mapping[str, Any] = {}
        try:
            found = await self._clients.admin().list_consumer_group_offsets(groups)
        except PartialFailureError as error:
            found = error.results
            reasons = dict.fromkeys(str(each) for each in error.errors.values())
            problems += [f"some groups cannot be read: {each}" for each in list(reasons)[:2]]
        except OttlaError as error:
            problems.append(f"committed offsets cannot be read: {error}")
        return {
            group: {partition: at for partition, at in offsets.items() if at is not None}
            for group, offsets in found.items()
        }

    async def _completed(
        self, facts: Mapping[str, PipelineFacts], snapshot: ClusterSnapshot, problems: list[str]
    ) -> dict[str, PipelineFacts]:
        """The same with what coordinators, journal and earlier looks know."""
        described: Mapping[str, Any] = {}
        try:
            ids = [each.transactional_id for each in facts.values()]
            described = await describe_existing(self._clients.admin(), ids)
        except PartialFailureError as error:
            described = error.results
            problems.append("some transactional ids cannot be described")
        except OttlaError as error:
            problems.append(f"transactional ids cannot be described: {error}")
        found = {}
        for name, each in facts.items():
            seen = self._look(each, snapshot.at_ms)
            found[name] = PipelineFacts(
                name,
                each.markers,
                each.offsets,
                described.get(each.transactional_id),
                self._journal.ended.counts_of(each.transactional_id),
                None if seen is None else seen.at_ms,
                None if seen is None else seen.input_count,
            )
        self._seen = {name: seen for name, seen in self._seen.items() if name in facts}
        return found

    def _look(self, facts: PipelineFacts, at_ms: int) -> _Seen | None:
        """Compare the marker with the one of the last look."""
        if not facts.markers:
            return None
        marker = facts.markers[0]
        position = sum(at.offset for at in facts.offsets.values())
        before = self._seen.get(facts.name)
        if before is None:
            seen = _Seen(marker, position, None, None)
        elif before.marker == marker:
            return before
        else:
            is_next = (before.marker.query, before.marker.batch + 1) == (marker.query, marker.batch)
            count = position - before.position if is_next and facts.offsets else None
            seen = _Seen(marker, position, at_ms, count)
        self._seen[facts.name] = seen
        return seen
