"""`ottla app`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.app_run import ASYNCAPI, RUN
from ottla.cli.commands.options import Argument, Flag, Option, exclusive
from ottla.cli.commands.shared_options import (
    TOPIC,
    connection,
    count_from,
    examples,
    form,
    listing,
    topics,
)
from ottla.cli.commands.syntax import Command, Group

_LIST_TEXT: Final = """\
Lists the dead-letter topics, with the number of their letters and the errors; or the letters of the topics that are
named. Letters that were replayed or dropped are done. Topics with other names than TOPIC.GROUP.dlt, as of Spring Kafka,
are read if they are named."""
_REPLAY_TEXT: Final = """\
Sends letters back to the topic and partition where they came from, with the key, value and headers that they had there.
All groups that read that topic get them again; --group-only sends them to the group that gave them up, through its
first retry topic. This is a dry run unless --execute is given.

Each letter is replayed once, even if the tool is killed or runs twice at once: TOPIC.done says which are done, and is
written in one transaction with the replayed records."""
_DROP_TEXT: Final = """\
Drops letters: they are noted as done in TOPIC.done, and deleted as far as no letter before them is still open. This is
a dry run unless --execute is given."""


def _filters() -> list[Option]:
    return [
        Option(
            "--partition partitions",
            "only of this partition of the dead-letter topic; repeatable",
            type=count_from(0),
            multiple=True,
        ),
        Option(
            "--offset offsets",
            "only the letter at this offset; repeatable",
            type=count_from(0),
            multiple=True,
        ),
        Option("--error", "only with this text in the error's class or message", metavar="TEXT"),
        Option(
            "--since",
            "only letters from this time on: 15m, 2h, 2026-01-31T12:00:00",
            metavar="TIME",
        ),
        Option("--until", "only letters before this time", metavar="TIME"),
    ]


def _execution(what: str) -> tuple[Option, ...]:
    return exclusive(
        Flag("--execute", what),
        Flag("--dry-run", "only show how many letters are concerned; this is the default"),
    )


_LIST: Final = Command(
    "list",
    "list dead-letter topics, or their letters",
    "app.dead_letter_overview:list_letters",
    [
        *topics("a dead-letter topic"),
        *_filters(),
        Flag("-a --all", "letters that are done, too"),
        *listing(),
    ],
    description=_LIST_TEXT,
    epilog=examples(
        "ottla app dlt list", "ottla app dlt list orders.billing.dlt --error timeout --since 2h"
    ),
)
_SHOW: Final = Command(
    "show",
    "show a dead letter with its history",
    "app.dead_letter_overview:show_letter",
    [
        Argument("letter_topic", "a dead-letter topic", metavar="TOPIC", type=TOPIC),
        Argument("letter_partition", "the partition", metavar="PARTITION", type=count_from(0)),
        Argument("letter_offset", "the offset of the letter", metavar="OFFSET", type=count_from(0)),
        form(),
        *connection(),
    ],
    epilog=examples("ottla app dlt show orders.billing.dlt 0 17"),
)
_REPLAY: Final = Command(
    "replay",
    "send dead letters back to where they came from",
    "app.dead_letter_changes:replay_letters",
    [
        *topics("a dead-letter topic"),
        *_filters(),
        *exclusive(
            Option("--to", "send them to this topic, by their keys", metavar="TOPIC", type=TOPIC),
            Flag("--group-only", "send them only to the group that gave them up"),
        ),
        *_execution("replay the letters"),
        form(),
        *connection(),
    ],
    description=_REPLAY_TEXT,
    epilog=examples(
        "ottla app dlt replay orders.billing.dlt",
        "ottla app dlt replay orders.billing.dlt --error TimeoutError --execute",
        "ottla app dlt replay orders.billing.dlt --partition 0 --offset 17 --execute",
    ),
)
_DROP: Final = Command(
    "drop",
    "drop dead letters",
    "app.dead_letter_changes:drop_letters",
    [
        *topics("a dead-letter topic"),
        *_filters(),
        *_execution("drop the letters"),
        form(),
        *connection(),
    ],
    description=_DROP_TEXT,
    epilog=examples("ottla app dlt drop orders.billing.dlt --until 30d --execute"),
)

_DLT: Final = Group(
    "dlt", "list, show, replay and drop dead letters", [_LIST, _SHOW, _REPLAY, _DROP]
)

COMMAND: Final = Group("app", SUMMARIES["app"], [RUN, ASYNCAPI, _DLT])
