"""Retry topics and dead letters: names, headers with a record's history, and tools to look at and replay them.

What a listener uses: `create_letter_topics` when partitions are assigned, `hop` and `dead_letter` for the records that
go into its unit, `read_history` and `is_of_group` for a record that comes out of a retry topic, `original_record` for
what its handler sees, and `is_letter_topic` to keep these topics out of a subscription by pattern.
"""

from ottla.app.letters.history import History, original_record, read_history
from ottla.app.letters.letter import DeadLetter
from ottla.app.letters.letter_records import (
    MAX_HISTORY_BYTES,
    dead_letter,
    hop,
    is_of_group,
    replay,
    replay_for_group,
)
from ottla.app.letters.letter_topics import create_letter_topics
from ottla.app.letters.topic_names import (
    MAX_RETRY_TOPICS,
    LetterTopic,
    dead_letter_topic,
    is_letter_topic,
    parse_letter_topic,
    retry_topic,
)

__all__ = [
    "MAX_HISTORY_BYTES",
    "MAX_RETRY_TOPICS",
    "DeadLetter",
    "History",
    "LetterTopic",
    "create_letter_topics",
    "dead_letter",
    "dead_letter_topic",
    "hop",
    "is_letter_topic",
    "is_of_group",
    "original_record",
    "parse_letter_topic",
    "read_history",
    "replay",
    "replay_for_group",
    "retry_topic",
]
