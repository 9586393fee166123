"""The letters of one listener: hops to its retry topics and dead letters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.app.delivery.unit import OutgoingRecord
from ottla.app.letters.letter_records import dead_letter, hop
from ottla.app.letters.letter_topics import create_letter_topics
from ottla.app.letters.topic_names import (
    dead_letter_topic,
    is_letter_topic,
    retry_number,
    retry_topic,
)
from ottla.client.aio.admin.client import Admin


class LetterWriter:
    """Knows the group, the listener, and how many partitions its letter topics have."""

    def __init__(self, spec: ListenerSpec) -> None:
        self._spec = spec
        self._known_topics: set[str] = set()
        self._partition_counts: dict[str, int] = {}

    @property
    def retry_topic_count(self) -> int:
        """How many retry topics the listener has for each of its topics."""
        retry = self._spec.retry
        return 0 if retry is None or retry.keep_order else len(retry.delays_seconds)

    def retry_topics(self, topics: Iterable[str]) -> list[str]:
        """The names of the retry topics of these topics."""
        numbers = range(1, self.retry_topic_count + 1)
        return [retry_topic(topic, self._spec.group, n) for topic in topics for n in numbers]

    def is_own_retry_topic(self, topic: str) -> bool:
        """Whether records wait in this topic for their retry by this listener."""
        sources = self._spec.topics
        if not self.retry_topic_count:
            return False
        if isinstance(sources, re.Pattern):
            number = retry_number(topic)
            return number is not None and topic.endswith(f".{self._spec.group}.retry.{number}")
        return topic in self.retry_topics(sources)

    def subscription(self) -> list[str] | re.Pattern[str]:
        """The listener's topics and its retry topics; a pattern leaves out the letters of others."""
        topics = self._spec.topics
        if not isinstance(topics, re.Pattern):
            return [*topics, *self.retry_topics(topics)]
        own = re.escape(f".{self._spec.group}")
        retries = r"\.retry\.[1-9][0-9]*"
        if not self.retry_topic_count:
            return re.compile(rf"(?!.*(?:\.dlt|{retries})\Z)(?:{topics.pattern})", topics.flags)
        return re.compile(
            rf"(?!.*(?:\.dlt|(?<!{own}){retries})\Z)(?:{topics.pattern})(?:{own}{retries})?",
            topics.flags,
        )

    async def create_topics(self, admin: Admin, topics: Iterable[str]) -> None:
        """Create the letter topics of topics that are new to this listener."""
        if not self.retry_topic_count and not self._spec.has_dead_letters:
            return
        new = [
            topic
            for topic in topics
            if topic not in self._known_topics and not is_letter_topic(topic)
        ]
        if not new:
            return
        counts = await create_letter_topics(
            admin,
            new,
            self._spec.group,
            retries=self.retry_topic_count,
            has_dead_letters=self._spec.has_dead_letters,
        )
        self._partition_counts |= counts
        self._known_topics |= {topic for topic in new if self._has_topics(topic)}

    def _has_topics(self, topic: str) -> bool:
        wanted = self.retry_topics([topic])
        if self._spec.has_dead_letters:
            wanted.append(dead_letter_topic(topic, self._spec.group))
        return all(each in self._partition_counts for each in wanted)

    def hop(
        self,
        record: RawRecord,
        error: BaseException,
        *,
        failed_count: int,
        due_ms: int,
        now_ms: int,
    ) -> OutgoingRecord:
        """The record for the retry topic after so many failed attempts."""
        made = hop(
            record,
            error,
            group=self._spec.group,
            listener=self._spec.name,
            attempt=failed_count,
            due_ms=due_ms,
            now_ms=now_ms,
        )
        return self._placed(made)

    def dead_letter(
        self,
        record: RawRecord,
        error: BaseException,
        *,
        failed_count: int,
        first_failed_ms: int | None,
        now_ms: int,
    ) -> OutgoingRecord:
        """The record for the dead-letter topic after so many failed attempts."""
        made = dead_letter(
            record,
            error,
            group=self._spec.group,
            listener=self._spec.name,
            attempt=failed_count,
            now_ms=now_ms,
            first_failed_ms=first_failed_ms,
        )
        return self._placed(made)

    def _placed(self, letter: OutgoingRecord) -> OutgoingRecord:
        """By its key, if the letter topic lacks the partition."""
        count = self._partition_counts.get(letter.topic)
        if count is None or letter.partition is None or letter.partition < count:
            return letter
        return letter._replace(partition=None)
