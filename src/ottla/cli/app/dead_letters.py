"""What the `ottla app dlt` commands have in common: which topics, which letters, and what to do about an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.app.letters.history import History
from ottla.app.letters.topic_names import parse_letter_topic
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import consumer_of
from ottla.cli.errors import CommandError
from ottla.cli.times import current_ms, moment_ms
from ottla.cli.topics.selection import check_patterns, choose_topics, no_such_topics
from ottla.client.existing_topics import describe_existing_topics
from ottla.inspection.dead_letters.errors import (
    LetterError,
    NoGroupError,
    NoHistoryError,
    NoPartitionError,
    NoTargetError,
    UnreadableNoteError,
    UnreadPartitionsError,
)
from ottla.inspection.dead_letters.letters import READER_OPTIONS, Letter, LetterReader

if TYPE_CHECKING:
    from ottla.client.admin_model.topics import TopicDescription
    from ottla.client.blocking.admin import Admin

_DEFAULT_WAIT_SECONDS: Final = 10.0
_ADVICE: Final[dict[type[LetterError], str]] = {
    NoGroupError: "leave out --group-only",
    NoHistoryError: "choose others with --partition and --offset",
    NoTargetError: "create it, or choose another one with --to TOPIC",
    UnreadPartitionsError: "is its leader running? --timeout SECONDS waits longer",
    UnreadableNoteError: "another version may have written it; deleting the topic forgets which letters are done",
}


class LetterFilter(NamedTuple):
    """Which letters were asked for."""

    partitions: frozenset[int]
    offsets: frozenset[int]
    error: str | None
    since_ms: int | None
    until_ms: int | None

    @classmethod
    def of(cls, arguments: Arguments) -> LetterFilter:
        """The filter of the arguments."""
        now_ms = current_ms()
        since_ms, until_ms = (
            None if text is None else moment_ms(text, now_ms)
            for text in (arguments.since, arguments.until)
        )
        return cls(
            frozenset(arguments.partitions),
            frozenset(arguments.offsets),
            arguments.error,
            since_ms,
            until_ms,
        )

    def accepts(self, letter: Letter) -> bool:
        """Whether the letter was asked for. The time is that of the letter, when its listener gave up."""
        record, history = letter.record, letter.history
        if self.partitions and record.partition not in self.partitions:
            return False
        if self.offsets and record.offset not in self.offsets:
            return False
        if self.since_ms is not None and record.timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and record.timestamp_ms >= self.until_ms:
            return False
        return self.error is None or (history is not None and self._is_error(history))

    def _is_error(self, history: History) -> bool:
        """Whether class or message have the text; a class may be named without its module."""
        wanted = (self.error or "").lower()
        texts = (history.error, history.cause, history.message)
        return any(wanted in text.lower() for text in texts if text is not None)


def dead_letter_topics(admin: Admin, wanted: Sequence[str]) -> dict[str, TopicDescription]:
    """The dead-letter topics by name: those that were named, whatever their names, or all that have our names."""
    check_patterns(wanted)
    names = [*admin.list_topics()]
    if wanted:
        found, missing = choose_topics(wanted, names)
        if missing:
            raise no_such_topics(admin, missing)
    else:
        found = []
        for name in sorted(names):
            parsed = parse_letter_topic(name, names)
            if parsed is not None and parsed.is_dead_letters:
                found.append(name)
    return dict(sorted(describe_existing_topics(admin, found).items()))


@contextmanager
def letter_reader(arguments: Arguments) -> Iterator[LetterReader]:
    """A reader of letters; what it raises says which options help."""
    with consumer_of(arguments, group_id=None, **READER_OPTIONS) as consumer:
        try:
            yield LetterReader(consumer, arguments.timeout or _DEFAULT_WAIT_SECONDS)
        except NoPartitionError as error:
            raise CommandError(str(error), f"it has {error.partition_count}") from error
        except LetterError as error:
            raise CommandError(str(error), _ADVICE[type(error)]) from error
