"""`ottla topics create`, `alter` and `delete`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.cli.cluster.configs import change, changes_text
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, print_errors
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, say
from ottla.cli.topics.selection import (
    check_patterns,
    choose_topics,
    is_name,
    no_such_topics,
    split_words,
)
from ottla.client.admin_model.configs import AlterConfig, AlterConfigOperation, ConfigResource
from ottla.client.admin_model.topics import CreatedTopic, NewPartitions, NewTopic
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_LOST: Final = {
    "__consumer_offsets": "all groups and their committed offsets",
    "__transaction_state": "all transactional ids and their open transactions",
}


def create(arguments: Arguments) -> int:
    """Create topics, all in one request."""
    names = split_words(arguments.topics)
    if not names:
        raise UsageError("no topic is named", "write `ottla topics create NAME`")
    assignment = arguments.replica_assignment
    if assignment and (arguments.partitions or arguments.replication_factor):
        raise UsageError(
            "--replica-assignment sets the numbers of partitions and replicas",
            "leave out --partitions and --replication-factor",
        )
    topics = [
        NewTopic(
            name,
            arguments.partitions,
            arguments.replication_factor,
            dict(arguments.settings),
            assignment,
        )
        for name in dict.fromkeys(names)
    ]
    with admin_of(arguments) as admin:
        made, errors = attempt(
            [topic.name for topic in topics],
            lambda: admin.create_topics(topics, validate_only=arguments.dry_run),
        )
    word = "would be created" if arguments.dry_run else "created"
    Output("table").lines(created_line(topic, word) for topic in made.values())
    if arguments.if_not_exists:
        for name, error in [*errors.items()]:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                say(f"topic {name} exists already")
                del errors[name]
    return print_errors(errors.values())


def created_line(topic: CreatedTopic, word: str) -> str:
    """The line about a created topic; brokers before Kafka 2.4 do not return its size."""
    if topic.num_partitions is None:
        return f"topic {topic.name} {word}"
    count = f"{topic.num_partitions} partition{'s' * (topic.num_partitions != 1)}"
    return f"topic {topic.name} {word}: {count}, replication factor {topic.replication_factor}"


def alter(arguments: Arguments) -> int:
    """Add partitions and change configs; an error of one topic does not stop the others."""
    changes = [AlterConfig(name, value) for name, value in arguments.settings]
    changes += [AlterConfig(name, None, AlterConfigOperation.DELETE) for name in arguments.unset]
    if arguments.partitions is None and not changes:
        raise UsageError(
            "nothing to change", "give --partitions, --config NAME=VALUE or --delete-config NAME"
        )
    if arguments.replica_assignment and arguments.partitions is None:
        raise UsageError("--replica-assignment is about new partitions", "give --partitions too")
    errors: list[OttlaError] = []
    with admin_of(arguments) as admin:
        names = _chosen(admin, arguments)
        if arguments.partitions is not None and names:
            errors += _grow(admin, names, arguments)
        if changes and names:
            errors += _configure(admin, names, changes, arguments)
    return print_errors(errors)


def _grow(admin: Admin, names: list[str], arguments: Arguments) -> Iterable[KafkaError]:
    count = arguments.partitions
    assignment: Mapping[int, list[int]] | None = arguments.replica_assignment
    new: dict[str, NewPartitions | int] = dict.fromkeys(names, count)
    if assignment is not None:
        # As in Kafka's tool, it names the replicas of all partitions, including those that exist.
        present = {
            name: len(topic.partitions) for name, topic in admin.describe_topics(names).items()
        }
        new |= {
            name: NewPartitions(count, [*assignment.values()][present[name] :]) for name in names
        }
    grown, errors = attempt(
        names, lambda: admin.create_partitions(new, validate_only=arguments.dry_run)
    )
    word = "would have" if arguments.dry_run else "has"
    Output("table").lines(f"topic {name} {word} {count} partitions" for name in grown)
    return errors.values()


def _configure(
    admin: Admin, names: list[str], changes: list[AlterConfig], arguments: Arguments
) -> Iterable[OttlaError]:
    resources = [ConfigResource.topic(name) for name in names]
    done, errors = change(admin, resources, changes, is_dry=arguments.dry_run)
    word = "would change" if arguments.dry_run else "changed"
    Output("table").lines(f"{resource} {word}: {changes_text(changes)}" for resource in done)
    return errors


def delete(arguments: Arguments) -> int:
    """Delete topics, all in one request."""
    with admin_of(arguments) as admin:
        names = _chosen(admin, arguments)
        if not arguments.force:
            _keep_internal(admin, names)
        if arguments.dry_run:
            Output("table").lines(f"topic {name} would be deleted" for name in names)
            return DONE
        gone, errors = attempt(names, lambda: admin.delete_topics(names))
    Output("table").lines(f"topic {name} deleted" for name in gone)
    if arguments.if_exists:
        for name, error in [*errors.items()]:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                del errors[name]
    return print_errors(errors.values())


def _keep_internal(admin: Admin, names: Iterable[str]) -> None:
    """Refuse to delete internal topics: without them every group would lose its offsets."""
    listed = admin.list_topics(list_internal=True)
    for name in names:
        if listed[name].is_internal:
            lost = _LOST.get(name, "what the cluster keeps there for itself")
            raise CommandError(
                f"{name} is the cluster's own topic, with {lost}",
                "nothing was deleted; --force deletes it",
            )


def _chosen(admin: Admin, arguments: Arguments) -> list[str]:
    """The topics to change; internal ones must be named, since no pattern selects them."""
    if not arguments.topics:
        raise UsageError("no topic is named", "write their names, or a pattern such as 'test-.*'")
    check_patterns(arguments.topics)
    listed = admin.list_topics(list_internal=True)
    words = split_words(arguments.topics)
    names = [name for name, topic in listed.items() if not topic.is_internal or name in words]
    chosen, missing = choose_topics(words, names)
    if missing and not arguments.if_exists:
        raise no_such_topics(admin, missing)
    for word in missing:
        say(f"there is no topic {word}" if is_name(word) else f"no topic matches {word}")
    return chosen
