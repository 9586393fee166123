"""`ottla groups reset-offsets` and `delete-offsets`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, line_of
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.groups.selection import (
    describe_existing_groups,
    foreign_text,
    groups_of,
    partitions_named,
    tell,
)
from ottla.cli.terminal.output import Output, columns, say
from ottla.cli.times import current_ms, date_ms, duration_ms
from ottla.client.admin_model.groups import GroupState
from ottla.errors import ErrorCode, KafkaError
from ottla.inspection.offset_reset import (
    NothingToShiftError,
    ResetTarget,
    ShiftBy,
    ToCommitted,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
    commits_offsets,
    is_active,
    offsets_to_list,
    plan_reset,
)
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

RESET: Final = columns(group="GROUP", topic="TOPIC", partition="PARTITION", new_offset="NEW-OFFSET")
Plan = dict[TopicPartition, int]


def reset_offsets(arguments: Arguments) -> int:
    """Show, or commit, the new offsets of groups."""
    _check_usage(arguments)
    with admin_of(arguments) as admin:
        groups = groups_of(arguments, admin.list_consumer_groups)
        inactive, new, is_failed = _inactive(admin, groups)
        # All groups are planned before the first is changed: an error in one leaves all as they are.
        plans = {
            group: _ResetPlanner(admin, group, len(groups)).plan(arguments) for group in inactive
        }
        for group in [group for group, plan in plans.items() if not plan]:
            say(f"ottla: {_nothing_to_reset(group, group in new)}")
            is_failed |= not arguments.all_groups
        for group in [group for group in new if plans[group]]:
            say(f"group '{group}' does not exist yet: committing offsets creates it")
        show = partial(_show, arguments, len(groups))
        if arguments.execute:
            return FAILED if _execute_all(admin, plans, show) or is_failed else DONE
    show(plans)
    say("dry run: nothing was changed; --execute commits the offsets")
    return FAILED if is_failed else DONE


def _check_usage(arguments: Arguments) -> None:
    if arguments.from_file:
        if arguments.topics or arguments.all_topics:
            raise UsageError(
                "--from-file names the partitions itself", "leave out --topic and --all-topics"
            )
    elif not (arguments.topics or arguments.all_topics):
        raise UsageError("no partitions are given", "give --topic TOPIC or --all-topics")
    if arguments.export and arguments.form != "table":
        raise UsageError("--export prints lines of its own form", f"leave out -o {arguments.form}")


def _execute_all(
    admin: Admin, plans: Mapping[str, Plan], show: Callable[[Mapping[str, Plan]], None]
) -> Mapping[str, Plan]:
    """Commit the plans, and show what was done even after an error; returns the errors."""
    done: dict[str, Plan] = {group: {} for group in plans}
    try:
        for group, plan in plans.items():
            done[group] = _execute(admin, group, plan) if plan else {}
    finally:
        show(done)
    return {group: plan for group, plan in plans.items() if len(done[group]) < len(plan)}


def _execute(admin: Admin, group: str, plan: Plan) -> Plan:
    """Commit the new offsets of a group; returns those that were committed, and prints errors of the others."""
    try:
        _, errors = attempt(plan, lambda: admin.alter_consumer_group_offsets(group, plan))
    except KafkaError as error:
        errors = dict.fromkeys(plan, error)
    _tell_partitions(group, errors)
    return {each: offset for each, offset in plan.items() if each not in errors}


def _tell_partitions(group: str, errors: Mapping[TopicPartition, KafkaError]) -> None:
    for partition, trouble in errors.items():
        say(f"ottla: group '{group}', {partition}: {line_of(trouble)}")


def _nothing_to_reset(group: str, is_new: bool) -> str:
    if is_new:
        return (
            f"group '{group}' does not exist: `ottla groups list` has the names of those that do; "
            "--topic TOPIC makes a new one"
        )
    return f"group '{group}' has committed nothing: --topic TOPIC says what to reset"


def _inactive(admin: Admin, groups: list[str]) -> tuple[list[str], list[str], bool]:
    """The groups that can be reset, those of them that do not exist yet, and whether others were left out."""
    found, errors = describe_existing_groups(admin, groups)
    others = {
        group: error
        for group, error in errors.items()
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND
    }
    tell(others)
    foreign = [name for name, group in found.items() if not commits_offsets(group)]
    for group in foreign:
        say(f"ottla: group '{group}' has no offsets to reset: {foreign_text(found[group])}")
    active = [name for name, group in found.items() if name not in foreign and is_active(group)]
    for group in active:
        say(
            f"ottla: assignments can only be reset if group '{group}' is inactive, but it is "
            f"{found[group].state}: stop its consumers first"
        )
    refused = {*active, *others, *foreign}
    new = [group for group in errors if group not in others]
    new += [name for name, group in found.items() if group.state is GroupState.DEAD]
    return [group for group in groups if group not in refused], new, bool(refused)


def _show(arguments: Arguments, group_count: int, plans: Mapping[str, Plan]) -> None:
    if arguments.export:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for group, plan in plans.items():
            first = [] if group_count == 1 else [group]
            writer.writerows([*first, *each, offset] for each, offset in sorted(plan.items()))
        return
    rows = [
        {"group": group, "topic": topic, "partition": partition, "new_offset": offset}
        for group, plan in plans.items()
        for (topic, partition), offset in sorted(plan.items())
    ]
    Output(arguments.form).rows(RESET, rows)


class _ResetPlanner:
    """Finds the new offsets of one group."""

    def __init__(self, admin: Admin, group: str, group_count: int) -> None:
        self._admin = admin
        self._group = group
        self._group_count = group_count

    def plan(self, arguments: Arguments) -> Plan:
        """The new offset of each selected partition."""
        target = self._target(arguments)
        partitions = self._partitions(arguments, target)
        if not partitions:
            return {}
        committed = self._committed() if isinstance(target, ShiftBy | ToCommitted) else {}
        listed = {spec: self._listed(partitions, spec) for spec in offsets_to_list(target)}
        try:
            found = plan_reset(self._group, target, partitions, committed, listed)
        except NothingToShiftError as error:
            raise CommandError(
                str(error), "there is nothing to shift: leave it out, or give --to-offset"
            ) from None
        for moved in found.moved:
            say(f"Warning: {moved.text}. Value will be set to {moved.offset}")
        return found.offsets

    def _target(self, arguments: Arguments) -> ResetTarget:
        if arguments.from_file is not None:
            path = Path(arguments.from_file)
            return ToOffsets(read_plan(path, self._group, self._group_count))
        if arguments.to_earliest:
            return ToEarliest()
        if arguments.to_latest:
            return ToLatest()
        if arguments.to_offset is not None:
            return ToOffset(arguments.to_offset)
        if arguments.shift_by is not None:
            return ShiftBy(arguments.shift_by)
        if arguments.to_datetime is not None:
            return ToTime(date_ms(arguments.to_datetime))
        if arguments.by_duration is not None:
            return ToTime(current_ms() - duration_ms(arguments.by_duration))
        return ToCommitted()

    def _partitions(self, arguments: Arguments, target: ResetTarget) -> list[TopicPartition]:
        if isinstance(target, ToOffsets):
            return list(target.offsets)
        if arguments.all_topics:
            return list(self._committed())
        return partitions_named(self._admin, arguments.topics)

    def _committed(self) -> Plan:
        try:
            found = self._admin.list_consumer_group_offsets([self._group])[self._group]
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return {}
        return {each: at.offset for each, at in found.items() if at is not None}

    def _listed(self, partitions: Sequence[TopicPartition], spec: int) -> Plan:
        found = self._admin.list_offsets(dict.fromkeys(partitions, spec))
        return {each: found[each].offset for each in partitions}


def read_plan(path: Path, group: str, group_count: int) -> Plan:
    """The offsets of a group in a CSV file: topic,partition,offset, or with the group first."""
    plan: Plan = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.reader(stream), 1):
            if not row:
                continue
            try:
                own, topic, partition, offset = row if len(row) == 4 else [group, *row]
                if len(row) == 3 and group_count > 1:
                    raise ValueError
                if own == group:
                    plan[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                columns_meant = "topic,partition,offset"
                if group_count > 1:
                    columns_meant = "group," + columns_meant
                raise CommandError(f"{path}, line {number}: it is not {columns_meant}") from None
    if not plan:
        raise CommandError(f"{path} has no offsets for group {group}")
    return plan


def delete_offsets(arguments: Arguments) -> int:
    """Delete committed offsets of a group."""
    (group, *others) = [*arguments.groups, *arguments.more_groups] or [None]
    if group is None or others:
        raise UsageError(
            "no group is given" if group is None else "more than one group", "name one"
        )
    with admin_of(arguments) as admin:
        wanted = partitions_named(admin, arguments.topics)
        # Brokers report success for offsets that do not exist.
        committed = admin.list_consumer_group_offsets({group: wanted})[group]
        missing = [each for each in wanted if committed.get(each) is None]
        there = [each for each in wanted if committed.get(each) is not None]
        deleted, errors = attempt(there, lambda: admin.delete_consumer_group_offsets(group, there))
        Output("table").lines(
            f"offset of group {group} for {each} deleted" for each in sorted(deleted)
        )
        _tell_partitions(group, errors)
        for partition in missing:
            say(f"ottla: group '{group}' has committed nothing for {partition}")
    return FAILED if errors or missing else DONE
