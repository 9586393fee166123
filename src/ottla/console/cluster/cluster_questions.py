"""What the poller asks a cluster: some of it in each round, the rest a piece at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.admin_model.configs import ConfigEntry, ConfigResource
from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.client.aio.admin.client import Admin
from ottla.console.cluster.known_cluster import KnownCluster
from ottla.console.cluster.part_states import (
    REFUSED_SECONDS,
    Rotation,
    is_passing,
    lasting_errors,
    sentence_of,
)
from ottla.console.cluster.snapshot import Part, TopicSettings
from ottla.errors import ErrorCode, KafkaError, OttlaError, PartialFailureError, RetriableError
from ottla.inspection.transactions import OPEN_STATES
from ottla.model import TopicPartition

# A cluster that has not answered this in time is not there.
PRESENCE_SECONDS: Final = 5.0
ROUND_SECONDS: Final = 8.0
PIECE_SECONDS: Final = 20.0

MAX_PARTITIONS_AT_ONCE: Final = 2_000
MIN_PARTITIONS_AT_ONCE: Final = 200
MAX_GROUPS_AT_ONCE: Final = 200
# A group may have thousands of partitions, and an answer has all of them.
MAX_COMMITTED_AT_ONCE: Final = 10_000
IDLE_GROUPS_AT_ONCE: Final = 50
MAX_DESCRIBED_TRANSACTIONS: Final = 200
TOPICS_OF_CONFIGS_AT_ONCE: Final = 200
# How long a round may ask idle partitions whether they have moved.
IDLE_SECONDS: Final = 0.03

# How often the parts of the background are asked for, if the cluster's time allows.
PERIODS: Final[Mapping[Part, float]] = {
    Part.TOPICS: 2.0,
    Part.LOG_DIRS: 4.0,
    Part.START_OFFSETS: 10.0,
    Part.TOPIC_CONFIGS: 30.0,
    Part.TRANSACTIONAL_IDS: 20.0,
}
UNWATCHED_PERIOD: Final = 60.0

_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas")


class ClusterQuestions:
    """Asks one cluster; on the poller's loop."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._known: KnownCluster | None = None
        self._idle_partitions: Rotation[TopicPartition] = Rotation()
        self._idle_groups: Rotation[str] = Rotation()
        self._start_partitions: Rotation[TopicPartition] = Rotation()
        self._configured_topics: Rotation[str] = Rotation()
        self._idle_count = MIN_PARTITIONS_AT_ONCE
        # What is wrong with earlier pieces of a part that is asked for in pieces.
        self._piece_problems: dict[Part, str] = {}
        self._refused_groups: dict[str, float] = {}
        self._refused_configs: set[str] = set()
        self._described_at: dict[str, float] = {}
        self.round_trip_ms: float | None = None
        """How long the cluster took to say which brokers it has; None if it had to be connected first."""
        self.is_watched = True
        self._is_present = False

    @property
    def known(self) -> KnownCluster:
        """What it told, once it was asked for the first time."""
        assert self._known is not None
        return self._known

    @property
    def is_known(self) -> bool:
        """Whether it has told anything."""
        return self._known is not None

    # The background

    def due_piece(self) -> Part | None:
        """The part of the background that it is time to ask for."""
        due = self.known.states.due(PERIODS, time.monotonic())
        return due[0] if due else None

    def is_due(self, part: Part) -> bool:
        """Whether it is time to ask for the part, or for its next piece."""
        return self.known.states.is_due(part, time.monotonic())

    def seconds_to_next_piece(self) -> float:
        """How long it takes until one is due."""
        return max(0.0, self.known.states.soonest(PERIODS) - time.monotonic())

    async def ask_piece(self, part: Part) -> None:
        """Ask for a piece of a part, no more than the cluster answers in passing."""
        ask = {
            Part.TOPICS: self._ask_topics,
            Part.LOG_DIRS: self._ask_log_dirs,
            Part.START_OFFSETS: self._ask_start_offsets,
            Part.TOPIC_CONFIGS: self._ask_settings,
            Part.TRANSACTIONAL_IDS: self._ask_transactional_ids,
        }[part]
        await self._ask_part(part, ask)

    def ask_all_soon(self) -> None:
        """Something was changed: whatever it was, it is looked for at once."""
        if self._known is not None:
            self._known.states.make_due(PERIODS)
            self._configured_topics.restart()
            self._idle_groups.restart()

    # A round

    async def ask_presence(self) -> None:
        """Ask for the brokers; an OttlaError if the cluster does not answer."""
        began = time.monotonic()
        was_present, self._is_present = self._is_present, False
        found = await self._admin.describe_cluster(timeout=PRESENCE_SECONDS)
        now = time.monotonic()
        self._is_present = True
        self.round_trip_ms = (now - began) * 1000 if was_present else None
        known = self._known
        if known is None or known.cluster.cluster_id != found.cluster_id:
            known = self._known = KnownCluster(found)
        known.cluster = found
        known.states.told(Part.BROKERS, _now_ms(), now)

    async def ask_movements(self) -> None:
        """Ask for what moves: groups, their offsets, the ends of logs, open transactions."""
        await self._ask_part(Part.GROUPS, self._ask_groups)
        # Before the ends: a lag may be too large by what came in between, and is never too small.
        await self._ask_part(Part.COMMITTED_OFFSETS, self._ask_committed)
        await self._ask_offsets()
        await self._ask_part(Part.OPEN_TRANSACTIONS, self._ask_transactions)

    async def _ask_part(self, part: Part, ask: Callable[[], Awaitable[None]]) -> None:
        states = self.known.states
        if not states.is_due(part, time.monotonic()):
            return
        try:
            await ask()
        except OttlaError as error:
            if isinstance(error, RetriableError):
                # One that is away altogether is no problem of a part.
                await self.ask_presence()
            states.failed(part, error, _now_ms(), time.monotonic())

    def _told(self, part: Part, problem: str | None = None) -> None:
        """The part was told at once; what a round asks for is due in the next one."""
        at = time.monotonic()
        if part in PERIODS:
            at += PERIODS[part] if self.is_watched else max(PERIODS[part], UNWATCHED_PERIOD)
        self._set_told(part, problem, at)

    def _told_piece(self, part: Part, problem: str | None) -> None:
        """A piece of the part was told, and the next one is due."""
        if problem is not None:
            self._piece_problems[part] = problem
        self._set_told(part, self._piece_problems.get(part), time.monotonic())

    def _told_last_piece(self, part: Part, problem: str | None) -> None:
        """The last piece of the part was told."""
        self._told(part, problem or self._piece_problems.pop(part, None))

    def _set_told(self, part: Part, problem: str | None, due_at: float) -> None:
        if problem is None:
            self.known.states.told(part, _now_ms(), due_at)
        else:
            self.known.states.told_in_part(part, problem, _now_ms(), due_at)

    # Topics

    async def _ask_topics(self) -> None:
        found = await self._admin.describe_all_topics(list_internal=True, timeout=PIECE_SECONDS)
        self.known.add_topics(found)
        self._told(Part.TOPICS)

    async def _ask_settings(self) -> None:
        known = self.known
        # New topics first.
        missing = [
            name
            for name in known.topics
            if name not in known.settings and name not in self._refused_configs
        ]
        names, is_last = missing[:TOPICS_OF_CONFIGS_AT_ONCE], False
        if not names:
            every = list(known.topics)
            names, is_last = self._configured_topics.take(every, TOPICS_OF_CONFIGS_AT_ONCE)
        problem = None
        if names:
            found, errors = await _told_and_failed(
                self._admin.describe_configs(
                    [ConfigResource.topic(name) for name in names],
                    config_names=_SETTINGS,
                    timeout=PIECE_SECONDS,
                )
            )
            known.add_settings({key.name: _settings_of(each) for key, each in found.items()})
            self._refused_configs.update(set(names) - known.settings.keys())
            problem = sentence_of(errors, "the configs of")
        if is_last or len(missing) == len(names):
            self._told_last_piece(Part.TOPIC_CONFIGS, problem)
        else:
            self._told_piece(Part.TOPIC_CONFIGS, problem)

    # Offsets

    async def _ask_offsets(self) -> None:
        known = self.known
        for part in (Part.END_OFFSETS, Part.STABLE_OFFSETS):
            self._piece_problems.pop(part, None)
        hot = set(known.ends.hot(time.monotonic())) | known.unstable
        led = known.led
        asked = [key for key in led if key in hot] if hot else []
        await self._ask_ends(asked)
        room = MAX_PARTITIONS_AT_ONCE if not known.ends.offsets else self._idle_count
        idle, _ = self._idle_partitions.take(led, room)
        idle = [key for key in idle if key not in hot]
        if idle:
            began = time.monotonic()
            await self._ask_ends(idle)
            self._adapt(len(idle), time.monotonic() - began)

    def _adapt(self, count: int, took: float) -> None:
        """As many idle partitions as can be asked in the time for them."""
        fitting = count * IDLE_SECONDS / max(took, 0.001)
        wanted = (self._idle_count + fitting) / 2
        self._idle_count = int(min(MAX_PARTITIONS_AT_ONCE, max(MIN_PARTITIONS_AT_ONCE, wanted)))

    async def ask_all_ends(self, after_each: Callable[[], Awaitable[None]]) -> None:
        """Ask for the ends of all partitions, as no round does; for the first picture."""
        led = list(self.known.led)
        for at in range(0, len(led), MAX_PARTITIONS_AT_ONCE):
            await self._ask_ends(led[at : at + MAX_PARTITIONS_AT_ONCE])
            await after_each()

    async def _ask_ends(self, partitions: Sequence[TopicPartition]) -> None:
        for at in range(0, max(1, len(partitions)), MAX_PARTITIONS_AT_ONCE):
            some = partitions[at : at + MAX_PARTITIONS_AT_ONCE]

            async def ask_ends(some: Sequence[TopicPartition] = some) -> None:
                found, problem = await self._offsets(some, OffsetSpec.LATEST)
                self.known.add_end_offsets(found, time.monotonic())
                self._told_piece(Part.END_OFFSETS, problem)

            async def ask_stable(some: Sequence[TopicPartition] = some) -> None:
                found, problem = await self._offsets(
                    self.known.stable_to_ask(some),
                    OffsetSpec.LATEST,
                    IsolationLevel.READ_COMMITTED,
                )
                self.known.add_stable_offsets(found)
                self._told_piece(Part.STABLE_OFFSETS, problem)

            await self._ask_part(Part.END_OFFSETS, ask_ends)
            await self._ask_part(Part.STABLE_OFFSETS, ask_stable)

    async def _ask_start_offsets(self) -> None:
        some, is_last = self._start_partitions.take(self.known.led, MAX_PARTITIONS_AT_ONCE)
        found, problem = await self._offsets(some, OffsetSpec.EARLIEST)
        self.known.add_start_offsets(found)
        if is_last:
            self._told_last_piece(Part.START_OFFSETS, problem)
        else:
            self._told_piece(Part.START_OFFSETS, problem)

    async def _offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> tuple[dict[TopicPartition, int], str | None]:
        specs = dict.fromkeys(partitions, spec)
        if not specs:
            return {}, None
        found, errors = await _told_and_failed(
            self._admin.list_offsets(specs, isolation_level=isolation, timeout=ROUND_SECONDS)
        )
        offsets = {key: listed.offset for key, listed in found.items()}
        return offsets, sentence_of(errors, "partition")

    # Brokers

    async def _ask_log_dirs(self) -> None:
        known = self.known
        brokers = [node.id for node in known.cluster.nodes]
        found, problem = await _of_brokers(
            self._admin.describe_log_dirs(brokers, timeout=PIECE_SECONDS)
        )
        known.add_log_dirs(found, time.monotonic())
        self._told(Part.LOG_DIRS, problem)

    # Groups

    async def _ask_groups(self) -> None:
        found, problem = await _of_brokers(self._admin.list_groups(timeout=ROUND_SECONDS))
        known = self.known
        if problem is not None:
            # The groups of a broker that does not answer are not gone.
            found = {**known.groups, **found}
        known.add_groups(found)
        self._told(Part.GROUPS, problem)

    async def _ask_committed(self) -> None:
        known = self.known
        at = time.monotonic()
        offsets = known.group_offsets
        hot = [
            group_id
            for group_id in known.groups
            if group_id not in offsets.committed
            or known.has_members(group_id)
            or offsets.is_hot(group_id, at)
        ]
        idle, _ = self._idle_groups.take(list(known.groups), IDLE_GROUPS_AT_ONCE)
        self._refused_groups = {
            group_id: until for group_id, until in self._refused_groups.items() if until > at
        }
        asked = [each for each in dict.fromkeys([*hot, *idle]) if each not in self._refused_groups]
        failed: dict[str, KafkaError] = {}
        for some in self._batches(asked):
            found, errors = await _told_and_failed(
                self._admin.list_consumer_group_offsets(some, timeout=ROUND_SECONDS)
            )
            failed.update(errors)
            self._refused_groups.update(
                (group_id, at + REFUSED_SECONDS)
                for group_id, error in errors.items()
                if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
            known.add_committed(
                {
                    group_id: {
                        key: each.offset for key, each in committed.items() if each is not None
                    }
                    for group_id, committed in found.items()
                },
                time.monotonic(),
            )
        self._told(Part.COMMITTED_OFFSETS, self._problem_of_groups(failed))

    def _problem_of_groups(self, failed: Mapping[str, KafkaError]) -> str | None:
        problem = sentence_of(failed, "group")
        if self._refused_groups and not failed:
            problem = f"{len(self._refused_groups)} groups may not be described"
        return problem

    def _batches(self, groups: Iterable[str]) -> list[list[str]]:
        """The groups of each request, so that no answer is huge."""
        batches: list[list[str]] = []
        size = 0
        for group_id in groups:
            count = len(self.known.group_offsets.committed.get(group_id, ()))
            is_full = bool(batches) and (
                size + count > MAX_COMMITTED_AT_ONCE or len(batches[-1]) >= MAX_GROUPS_AT_ONCE
            )
            if not batches or is_full:
                batches.append([])
                size = 0
            batches[-1].append(group_id)
            size += count
        return batches

    # Transactions

    async def _ask_transactions(self) -> None:
        known = self.known
        found, problem = await _of_brokers(
            self._admin.list_transactions(states=OPEN_STATES, timeout=ROUND_SECONDS)
        )
        if problem is not None:
            found = {**known.transactions, **found}
        known.add_transactions(found)
        self._described_at = {name: at for name, at in self._described_at.items() if name in found}
        # Those that were described longest ago: a transaction gets more partitions while it is open.
        names = sorted(found, key=lambda name: self._described_at.get(name, 0.0))
        names = names[:MAX_DESCRIBED_TRANSACTIONS]
        if names:
            described, errors = await _told_and_failed(
                self._admin.describe_transactions(names, timeout=ROUND_SECONDS)
            )
            known.described.update(described)
            self._described_at.update(dict.fromkeys(names, time.monotonic()))
            problem = problem or sentence_of(errors, "transactional id")
        self._told(Part.OPEN_TRANSACTIONS, problem)

    async def _ask_transactional_ids(self) -> None:
        found, problem = await _of_brokers(self._admin.list_transactions(timeout=PIECE_SECONDS))
        self.known.transactional_id_count = len(found)
        self._told(Part.TRANSACTIONAL_IDS, problem)


async def _told_and_failed(
    asking: Awaitable[Mapping[Any, Any]],
) -> tuple[dict[Any, Any], Mapping[Any, KafkaError]]:
    """What was told, and what is wrong with the rest; a KafkaError if there is only the rest."""
    try:
        return dict(await asking), {}
    except PartialFailureError as error:
        return error.results, lasting_errors(error)
    except KafkaError as error:
        # The call was about a single thing.
        if is_passing(error):
            return {}, {}
        raise


async def _of_brokers(
    asking: Awaitable[Mapping[Any, Any]],
) -> tuple[dict[Any, Any], str | None]:
    """What brokers told, and what is wrong with others; a KafkaError if none told anything."""
    found, errors = await _told_and_failed(asking)
    if errors and not found:
        raise next(iter(errors.values()))
    return found, sentence_of(errors, "broker")


def _settings_of(entries: Mapping[str, ConfigEntry]) -> TopicSettings:
    def text(name: str) -> str | None:
        entry = entries.get(name)
        return None if entry is None else entry.value

    def number(name: str) -> int | None:
        value = text(name)
        return int(value) if value is not None and value.lstrip("-").isdecimal() else None

    return TopicSettings(
        text("cleanup.policy"),
        number("retention.ms"),
        number("retention.bytes"),
        number("min.insync.replicas"),
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
