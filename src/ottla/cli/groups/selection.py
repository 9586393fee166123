"""The groups and partitions that the arguments select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import UsageError, attempt, line_of
from ottla.cli.terminal.output import say
from ottla.client.admin_model.groups import GroupType
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription
    from ottla.client.blocking.admin import Admin


def groups_of(arguments: Arguments, list_all: Callable[[], Iterable[str]]) -> list[str]:
    """The groups that the arguments name; --all-groups stands for those that `list_all` returns."""
    named = list(dict.fromkeys([*arguments.groups, *arguments.more_groups]))
    if arguments.all_groups:
        if named:
            raise UsageError(
                "--all-groups and names of groups are given", "leave out the names, or --all-groups"
            )
        return sorted(list_all())
    if not named:
        raise UsageError("no group is given", "name one, or give --all-groups")
    return named


def describe_existing_groups(
    admin: Admin, groups: list[str]
) -> tuple[Mapping[str, GroupDescription], Mapping[str, KafkaError]]:
    """The descriptions of groups, and the errors of the others."""
    return attempt(groups, lambda: admin.describe_groups(groups))


def foreign_text(group: GroupDescription) -> str:
    """What a group is whose members do not commit offsets."""
    if group.type is GroupType.SHARE:
        return "it is a share group"
    return f"its protocol type is {group.protocol_type}"


def tell(errors: Mapping[str, KafkaError]) -> None:
    """Print the errors of groups."""
    for group, error in errors.items():
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            say(f"ottla: group '{group}' does not exist: `ottla groups list` shows them")
        else:
            say(f"ottla: group '{group}': {line_of(error)}")


def partitions_named(admin: Admin, texts: Iterable[str]) -> list[TopicPartition]:
    """The partitions that TOPIC and TOPIC:N,N stand for."""
    found: dict[TopicPartition, None] = {}
    whole: list[str] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not colon:
            whole.append(topic)
            continue
        try:
            found.update({TopicPartition(topic, int(each)): None for each in numbers.split(",")})
        except ValueError:
            raise UsageError(f"{text} is not a topic with partitions", "write TOPIC:0,1") from None
    for topic, description in (admin.describe_topics(whole) if whole else {}).items():
        for info in description.partitions:
            found[TopicPartition(topic, info.partition)] = None
    return list(found)
