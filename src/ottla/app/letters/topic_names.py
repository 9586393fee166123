"""The names of retry topics and dead-letter topics."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from typing import Final, NamedTuple

from ottla.model import TOPIC_NAME_CHARS

_DONE: Final = ".done"
_LETTERS: Final = re.compile(r"(?P<stem>.+)\.(?:dlt|retry\.(?P<number>[1-9][0-9]*))", re.DOTALL)
_NOT_LEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")
_HASH_CHARS: Final = 12
MAX_RETRY_TOPICS: Final = 99
"""How many retry topics a listener may have."""


class LetterTopic(NamedTuple):
    """What the name of a retry topic or dead-letter topic says; `number` is None for dead letters."""

    topic: str | None
    """The source topic, or None if the name alone does not tell: the headers of the records do."""
    group: str | None
    number: int | None

    @property
    def is_dead_letters(self) -> bool:
        """Whether the topic has dead letters, and not records that wait for a retry."""
        return self.number is None


def retry_topic(topic: str, group: str, number: int) -> str:
    """The topic where records of `topic` wait for their retry after attempt `number`: `orders.billing.retry.1`."""
    if not 1 <= number <= MAX_RETRY_TOPICS:
        raise ValueError(f"retry topics have numbers from 1 to {MAX_RETRY_TOPICS}, not {number}")
    return _name(topic, group, f".retry.{number}")


def dead_letter_topic(topic: str, group: str) -> str:
    """The topic of the records that `group` gave up: `orders.billing.dlt`."""
    return _name(topic, group, ".dlt")


def done_topic(dead_letters: str) -> str:
    """The compacted topic that says which letters of a dead-letter topic were replayed or dropped."""
    name = f"{dead_letters}{_DONE}"
    if len(name) <= TOPIC_NAME_CHARS:
        return name
    digest = hashlib.sha256(dead_letters.encode()).hexdigest()[:_HASH_CHARS]
    return f"{dead_letters[: TOPIC_NAME_CHARS - len(f'.{digest}{_DONE}')]}.{digest}{_DONE}"


def has_plain_name(topic: str, group: str) -> bool:
    """Whether the names are `<topic>.<group>…` as they stand, neither shortened nor with replaced characters."""
    # One rule for all numbers, so that the topics of a listener have the same stem.
    fits = len(topic) + len(group) + len(f"..retry.{MAX_RETRY_TOPICS}") <= TOPIC_NAME_CHARS
    return fits and _NOT_LEGAL.search(group) is None


def is_letter_topic(name: str) -> bool:
    """Whether a retry topic, a dead-letter topic or its `.done` has this name: listeners by pattern leave these out."""
    return _LETTERS.fullmatch(name.removesuffix(_DONE)) is not None


def retry_number(name: str) -> int | None:
    """The number of a retry topic; None for other topics."""
    match = _LETTERS.fullmatch(name)
    if (
        match is None
        or match["number"] is None
        or len(match["number"]) > len(str(MAX_RETRY_TOPICS))
    ):
        return None
    return int(match["number"])


def parse_letter_topic(name: str, topics: Container[str]) -> LetterTopic | None:
    """Split a name, given the topics that exist: topics and groups may both have dots.

    The longest existing topic counts. None for other topics.
    """
    match = _LETTERS.fullmatch(name)
    if match is None:
        return None
    number = None if match["number"] is None else int(match["number"])
    stem = match["stem"]
    dots = [place for place, each in enumerate(stem) if each == "."]
    for dot in reversed(dots):
        if 0 < dot < len(stem) - 1 and stem[:dot] in topics:
            return LetterTopic(stem[:dot], stem[dot + 1 :], number)
    return LetterTopic(None, None, number)


def _name(topic: str, group: str, end: str) -> str:
    if has_plain_name(topic, group):
        return f"{topic}.{group}{end}"
    # A hash of both keeps shortened and replaced names apart, and is the same in every process.
    digest = hashlib.sha256(f"{topic}\0{group}".encode()).hexdigest()[:_HASH_CHARS]
    legal_group = _NOT_LEGAL.sub("-", group)
    room = TOPIC_NAME_CHARS - len(f"..{digest}.retry.{MAX_RETRY_TOPICS}")
    kept_topic = topic[: max(room // 2, room - len(legal_group))]
    kept_group = legal_group[: room - len(kept_topic)]
    return f"{kept_topic}.{kept_group}.{digest}{end}"
