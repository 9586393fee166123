"""`ottla app dlt replay` and `drop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.cli.app.dead_letters import LetterFilter, dead_letter_topics, letter_reader
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of, producer_of
from ottla.cli.errors import UsageError
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, say
from ottla.inspection.dead_letters.changes import (
    Counts,
    Drop,
    LetterChange,
    Replay,
    ReplayTargets,
    Target,
    ToGroup,
    ToSource,
    ToTopic,
    create_done_topic,
    transactional_id_of,
)
from ottla.inspection.dead_letters.letters import LetterReader, LetterSpan

if TYPE_CHECKING:
    from ottla.client.admin_model.topics import TopicDescription
    from ottla.client.blocking.admin import Admin

REPLAYED: Final = columns(topic="TOPIC", partition="PARTITION", to="TO", letters="LETTERS")
DROPPED: Final = columns(topic="TOPIC", partition="PARTITION", letters="LETTERS")

_MakeChange: TypeAlias = Callable[[LetterReader, LetterFilter, LetterSpan], LetterChange]


def replay_letters(arguments: Arguments) -> int:
    """Send letters back to where they came from."""
    if not arguments.topics:
        raise UsageError("no dead-letter topic is given", "`ottla app dlt list` shows them")
    rows = []
    with admin_of(arguments) as admin:
        for topic in dead_letter_topics(admin, arguments.topics).values():
            counts = _run(admin, arguments, topic, _replay_of(admin, arguments, topic))
            rows += [
                {"topic": topic.name, "partition": partition, "to": to, "letters": count}
                for (partition, to), count in sorted(counts.items())
            ]
    Output(arguments.form).rows(REPLAYED, rows)
    if not rows:
        say("there are no such letters")
    if not arguments.execute:
        say("dry run: nothing was sent; --execute replays the letters")
    return DONE


def drop_letters(arguments: Arguments) -> int:
    """Note letters as done, and delete what is done at the start of each partition."""
    if not arguments.topics:
        raise UsageError("no dead-letter topic is given", "`ottla app dlt list` shows them")
    rows = []
    with admin_of(arguments) as admin:
        for topic in dead_letter_topics(admin, arguments.topics).values():
            counts = _run(admin, arguments, topic, _drop_of(admin, topic))
            rows += [
                {"topic": topic.name, "partition": partition, "letters": count}
                for (partition, _), count in sorted(counts.items())
            ]
    Output(arguments.form).rows(DROPPED, rows)
    if not rows:
        say("there are no such letters")
    if not arguments.execute:
        say("dry run: nothing was dropped; --execute drops the letters")
    return DONE


def _replay_of(admin: Admin, arguments: Arguments, topic: TopicDescription) -> _MakeChange:
    target: Target = ToSource()
    if arguments.to is not None:
        target = ToTopic(arguments.to)
    elif arguments.group_only:
        target = ToGroup()
    targets = ReplayTargets(admin, topic.name, target)
    return lambda reader, wanted, span: Replay(reader, topic, wanted.accepts, targets, span)


def _drop_of(admin: Admin, topic: TopicDescription) -> _MakeChange:
    return lambda reader, wanted, span: Drop(reader, topic, wanted.accepts, admin, span)


def _run(
    admin: Admin, arguments: Arguments, topic: TopicDescription, make_change: _MakeChange
) -> Counts:
    """Do it, or only count without --execute."""
    wanted = LetterFilter.of(arguments)
    with letter_reader(arguments) as reader:
        change = make_change(reader, wanted, LetterSpan(wanted.partitions))
        if not arguments.execute:
            return change.count()
        create_done_topic(admin, topic)
        transactional_id = transactional_id_of(topic.name)
        with producer_of(arguments, transactional_id=transactional_id, acks="all") as producer:
            return change.execute(producer)
