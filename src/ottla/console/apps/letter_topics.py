"""Retry and dead-letter topics among the topics of a cluster, by their names.

Names are ours (`orders.billing.retry.1`, `orders.billing.dlt`), those of Spring Kafka (`orders-retry-0`, `orders-dlt`,
`orders.DLT`), and of dead letters those that Kafka Connect's users give by custom (`orders-dlq`, `orders.DLQ`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from ottla.app.letters.topic_names import done_topic, parse_letter_topic
from ottla.console.cluster.snapshot import ClusterSnapshot

_SPRING_RETRY: Final = re.compile(r"(?P<topic>.+)-retry(?:-(?P<number>[0-9]{1,9}))?", re.DOTALL)
_OTHER_DEAD_LETTERS: Final = re.compile(
    r"(?P<topic>.+)(?:[.-]DLT|-dlt|[._-](?:dlq|DLQ))", re.DOTALL
)


class LetterNaming(StrEnum):
    """Whose custom a name follows."""

    OTTLA = "ottla"
    OTHERS = "others"


class LetterTopicName(NamedTuple):
    """What the name of a topic says; source and group are None if the name alone does not tell."""

    name: str
    source: str | None
    group: str | None
    number: int | None
    """Which of the retry topics; None for dead letters. Spring may count by the delay in milliseconds."""
    is_dead_letters: bool
    naming: LetterNaming


def letter_topic_of(name: str, topics: Mapping[str, object]) -> LetterTopicName | None:
    """What a name says, given the topics that exist; None for a topic that has neither retries nor dead letters."""
    found = parse_letter_topic(name, topics)
    if found is not None:
        return LetterTopicName(
            name, found.topic, found.group, found.number, found.is_dead_letters, LetterNaming.OTTLA
        )
    # Such names are nobody's alone: without a topic that they are about they mean nothing.
    match = _OTHER_DEAD_LETTERS.fullmatch(name)
    if match is not None and match["topic"] in topics:
        return LetterTopicName(name, match["topic"], None, None, True, LetterNaming.OTHERS)
    match = _SPRING_RETRY.fullmatch(name)
    if match is not None and match["topic"] in topics:
        number = int(match["number"] or 0)
        return LetterTopicName(name, match["topic"], None, number, False, LetterNaming.OTHERS)
    return None


def letter_topics_of(snapshot: ClusterSnapshot) -> list[LetterTopicName]:
    """All of a cluster, in the order of their names."""
    topics = snapshot.topics
    found = (letter_topic_of(name, topics) for name in topics)
    return [each for each in found if each is not None]


class AppGroup(NamedTuple):
    """A group and a source topic, with what belongs to them; the group is None if nothing names it."""

    group: str | None
    source: str | None
    retry_topics: tuple[LetterTopicName, ...]
    dead_letter_topics: tuple[LetterTopicName, ...]


def app_groups_of(
    snapshot: ClusterSnapshot, known: Mapping[str, tuple[str | None, str | None]]
) -> list[AppGroup]:
    """The retry and dead-letter topics by group and source.

    `known` has group and source by topic from the headers of its records. Where neither name nor headers tell the
    group, one that reads the source and a retry topic of it is taken for it.
    """
    parts: dict[tuple[str | None, str | None], list[LetterTopicName]] = {}
    for each in letter_topics_of(snapshot):
        group, source = known.get(each.name, (None, None))
        source = each.source or source
        group = each.group or group or _reader_of(snapshot, each)
        parts.setdefault((group, source), []).append(each)
    _join_unknown(parts)
    return [
        AppGroup(
            group,
            source,
            tuple(
                sorted(
                    (each for each in found if not each.is_dead_letters),
                    key=lambda each: each.number or 0,
                )
            ),
            tuple(each for each in found if each.is_dead_letters),
        )
        for (group, source), found in parts.items()
    ]


def _join_unknown(parts: dict[tuple[str | None, str | None], list[LetterTopicName]]) -> None:
    """Topics of a source that name no group belong to the only group that the source's other letter topics name."""
    for group, source in [*parts]:
        if group is not None or source is None:
            continue
        named = [each for each in parts if each[1] == source and each[0] is not None]
        if len(named) == 1:
            parts[named[0]] += parts.pop((group, source))


def _reader_of(snapshot: ClusterSnapshot, topic: LetterTopicName) -> str | None:
    """The group of Spring's listener: it reads the source, and with a suffix or without one the retry topics."""
    if topic.is_dead_letters or topic.source is None:
        return None
    suffix = topic.name.removeprefix(topic.source)
    names = [each.removesuffix(suffix) for each in snapshot.groups_of_topic.get(topic.name, ())]
    readers = snapshot.groups_of_topic.get(topic.source, ())
    return next((each for each in names if each in readers), next(iter(names), None))


def waiting_of(snapshot: ClusterSnapshot, topic: str, group: str | None) -> int | None:
    """The records of a retry topic that its group has yet to read; None if no group has committed offsets there."""
    lags = []
    for name in snapshot.groups_of_topic.get(topic, ()):
        found = snapshot.groups.get(name)
        if found is not None and topic in found.lags:
            lags.append((name != group, found.lags[topic]))
    # The app's own group if it is among them, else the one that is furthest behind.
    return min(lags, key=lambda each: (each[0], -each[1]))[1] if lags else None


def reading_groups_of(snapshot: ClusterSnapshot, topic: str) -> Iterable[str]:
    """The groups that have committed offsets in a topic."""
    return snapshot.groups_of_topic.get(topic, ())


def done_topic_of(snapshot: ClusterSnapshot, topic: str) -> str | None:
    """The topic that notes which letters are done, if there is one."""
    name = done_topic(topic)
    return name if name in snapshot.topics else None
