"""`ottla offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, print_errors
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.cli.times import current_ms, moment_ms
from ottla.cli.topics.selection import PartitionRule, choose_topics, no_such_topics, partition_rules
from ottla.client.admin_model.offsets import IsolationLevel, ListedOffset, OffsetSpec
from ottla.client.existing_topics import describe_existing_topics
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

SHAPE: Final = columns(topic="TOPIC", partition="PARTITION", offset="OFFSET")
SHAPE_IN_TIME: Final = (*SHAPE, *columns(timestamp="TIMESTAMP"))

_NONE: Final = -1


def offsets(arguments: Arguments) -> int:
    """Show an offset of each partition."""
    output = Output(arguments.form)
    rules = _rules(arguments)
    isolation = IsolationLevel[arguments.isolation.upper()]
    with admin_of(arguments) as admin:

        def show() -> int:
            spec = spec_of(arguments.time)
            partitions, missing = _partitions(admin, rules, arguments)
            wanted = dict.fromkeys(partitions, spec)
            if not wanted:
                if not arguments.topics and arguments.partitions is None:
                    say("there are no topics")
                    output.rows(SHAPE, [])
                    return DONE
                raise CommandError("no topic has such partitions", "`ottla topics list` shows them")
            found, errors = attempt(
                wanted, lambda: admin.list_offsets(wanted, isolation_level=isolation)
            )
            shape = SHAPE_IN_TIME if spec in _IN_TIME or spec >= 0 else SHAPE
            output.rows(shape, [row_of(each, found[each]) for each in sorted(found)])
            return print_errors([*missing, *errors.values()])

        return repeat(arguments.watch, show)


# These specs find a record, which has a timestamp.
_IN_TIME: Final = frozenset({OffsetSpec.MAX_TIMESTAMP})
_SPECS: Final = {spec.name.lower().replace("_", "-"): spec for spec in OffsetSpec}


def spec_of(text: str) -> int:
    """The offset spec of a name, of the number that stands for it, or of a time."""
    if text in _SPECS:
        return _SPECS[text]
    if text.startswith("-") and text[1:].isdecimal():
        if int(text) not in [*OffsetSpec]:
            raise UsageError(
                f"{text} is not an offset to show", f"it is one of {', '.join(_SPECS)}"
            )
        return int(text)
    # Negative numbers stand for names.
    return max(0, moment_ms(text, current_ms()))


def row_of(partition: TopicPartition, found: ListedOffset) -> dict[str, Any]:
    """The row of a partition; without an offset if there is no such record."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": None if found.offset == _NONE else found.offset,
        "timestamp": None if found.timestamp_ms == _NONE else found.timestamp_ms,
        "leader_epoch": found.leader_epoch,
    }


def _rules(arguments: Arguments) -> list[PartitionRule]:
    """The partitions that are asked for; none means all."""
    if arguments.topic_partitions is not None:
        if arguments.topics or arguments.partitions is not None:
            raise UsageError(
                "--topic-partitions names topics and partitions: leave out topics and --partitions"
            )
        return partition_rules(arguments.topic_partitions)
    topics = arguments.topics or [".*"]
    if arguments.partitions is None:
        return [PartitionRule(topic) for topic in topics]
    try:
        numbers = [int(text) for text in arguments.partitions.split(",")]
    except ValueError:
        raise UsageError(f"--partitions {arguments.partitions} are no numbers") from None
    return [PartitionRule(topic, number, number + 1) for topic in topics for number in numbers]


def _partitions(
    admin: Admin, rules: list[PartitionRule], arguments: Arguments
) -> tuple[list[TopicPartition], list[CommandError]]:
    """The existing partitions that are asked for, and errors for the others."""
    names = admin.list_topics(list_internal=not arguments.exclude_internal)
    by_rule = {}
    for rule in rules:
        by_rule[rule], missing = choose_topics([rule.topic], names)
        if missing and rule.topic != ".*":
            raise no_such_topics(admin, missing)
    wanted = sorted({name for chosen in by_rule.values() for name in chosen})
    described = describe_existing_topics(admin, wanted)
    found: dict[TopicPartition, None] = {}
    missing_ones = []
    for rule, chosen in by_rule.items():
        partitions = [
            TopicPartition(name, each.partition)
            for name in chosen
            if name in described
            for each in described[name].partitions
            if rule.has(each.partition)
        ]
        found |= dict.fromkeys(partitions)
        if not partitions and rule.end == rule.first + 1:
            missing_ones.append(CommandError(f"{rule.topic} has no partition {rule.first}"))
    return [*found], missing_ones
