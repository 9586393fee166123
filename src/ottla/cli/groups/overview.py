"""`ottla groups list`, `describe` and `delete`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import UsageError, attempt
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.groups.member_rows import (
    STATE,
    VERBOSE_STATE,
    member_columns,
    member_row,
    state_row,
    without_texts,
)
from ottla.cli.groups.offset_rows import OFFSETS, VERBOSE_OFFSETS, offset_rows
from ottla.cli.groups.selection import describe_existing_groups, groups_of, tell
from ottla.cli.terminal.output import Column, Output, columns, repeat, say
from ottla.client.admin_model.groups import GroupState, GroupType

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription
    from ottla.client.blocking.admin import Admin

Word = TypeVar("Word", GroupState, GroupType)

LISTED: Final = columns(group="GROUP", type="TYPE", protocol_type="PROTOCOL", state="STATE")
_REBALANCING: Final = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)


def list_groups(arguments: Arguments) -> int:
    """List the groups by name."""
    output = Output(arguments.form)
    states = [_word(GroupState, text, "state") for text in arguments.state]
    types = [_word(GroupType, text, "type") for text in arguments.type]
    with admin_of(arguments) as admin:

        def show() -> int:
            found = admin.list_groups(states=states, types=types)
            rows = [
                {
                    "group": name,
                    "type": found[name].type,
                    "protocol_type": found[name].protocol_type or None,
                    "state": found[name].state,
                }
                for name in sorted(found)
            ]
            output.rows(LISTED, rows)
            if not rows and output.is_table:
                say("there are no such groups" if states or types else "there are no groups")
            return DONE

        return repeat(arguments.watch, show)


def _word(words: type[Word], text: str, what: str) -> Word:
    """The name of a state or type, in any case."""
    known = [word for word in words if word.name != "UNKNOWN"]
    for word in known:
        if word.value.lower() == text.lower():
            return word
    raise UsageError(
        f"{text} is not a {what} of groups", f"there are {', '.join(word.value for word in known)}"
    )


def describe_groups(arguments: Arguments) -> int:
    """Show the lag, the members or the state of groups, or with --verbose all of these."""
    output = Output(arguments.form)
    show_chosen = _CHOICES[arguments.what or ("everything" if arguments.verbose else "offsets")]
    with admin_of(arguments) as admin:

        def show() -> int:
            groups = groups_of(arguments, admin.list_groups)
            found, errors = describe_existing_groups(admin, groups)
            tell(errors)
            for group in found.values():
                _remark(group)
            show_chosen(admin, found, arguments, output)
            return FAILED if errors else DONE

        return repeat(arguments.watch, show)


def _remark(group: GroupDescription) -> None:
    """The remark of Kafka's tool beside the table."""
    if group.state is GroupState.EMPTY:
        say(f"{_name_of(group)} has no active members.")
    elif group.state in _REBALANCING:
        say(f"Warning: {_name_of(group)} is rebalancing.")


def _name_of(group: GroupDescription) -> str:
    is_consumer_group = group.type in (GroupType.CLASSIC, GroupType.CONSUMER)
    return f"{'Consumer' if is_consumer_group else group.type} group '{group.group_id}'"


Groups = Mapping[str, "GroupDescription"]


def _show_offsets(admin: Admin, groups: Groups, arguments: Arguments, output: Output) -> None:
    rows = offset_rows(admin, groups, arguments)
    output.rows(VERBOSE_OFFSETS if arguments.verbose else OFFSETS, rows)
    for group in groups.values():
        if group.type is GroupType.SHARE and output.is_table:
            say(
                f"Share group '{group.group_id}' commits no offsets: kafka-share-groups.sh shows how far it is."
            )
    if groups and not rows and output.is_table:
        say("Nothing is committed or assigned.")


def _show_members(admin: Admin, groups: Groups, arguments: Arguments, output: Output) -> None:
    rows = _member_rows(groups.values())
    _show(output, member_columns(rows, is_verbose=arguments.verbose), rows)
    if groups and not rows and output.is_table:
        say("There are no members.")


def _show_states(admin: Admin, groups: Groups, arguments: Arguments, output: Output) -> None:
    rows = [state_row(group) for group in groups.values()]
    _show(output, VERBOSE_STATE if arguments.verbose else STATE, rows)


def _show_everything(admin: Admin, groups: Groups, arguments: Arguments, output: Output) -> None:
    """One table after the other, or a document for each group."""
    if output.is_table:
        _show_states(admin, groups, arguments, output)
        if any(group.members for group in groups.values()):
            output.lines([""])
        _show_members(admin, groups, arguments, output)
        if groups:
            output.lines([""])
        _show_offsets(admin, groups, arguments, output)
        return
    offsets = offset_rows(admin, groups, arguments)
    output.data(
        [
            {
                **without_texts(state_row(group)),
                "members": [_part_of_group(row) for row in _member_rows([group])],
                "offsets": [_part_of_group(row) for row in offsets if row["group"] == name],
            }
            for name, group in groups.items()
        ]
    )


_CHOICES: Final = {
    "offsets": _show_offsets,
    "members": _show_members,
    "state": _show_states,
    "everything": _show_everything,
}


def _member_rows(groups: Iterable[GroupDescription]) -> list[dict[str, Any]]:
    return [member_row(group, member) for group in groups for member in group.members]


def _part_of_group(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in without_texts(row).items() if key != "group"}


def _show(output: Output, shape: Sequence[Column], rows: Sequence[dict[str, Any]]) -> None:
    """Print rows in which some values have another text in tables."""
    output.rows(shape, rows if output.is_table else [without_texts(row) for row in rows])


def delete_groups(arguments: Arguments) -> int:
    """Delete groups and their committed offsets."""
    output = Output("table")
    with admin_of(arguments) as admin:
        groups = groups_of(arguments, admin.list_consumer_groups)
        deleted, errors = attempt(groups, lambda: admin.delete_consumer_groups(groups))
        output.lines(f"group {group} deleted" for group in groups if group in deleted)
        tell(errors)
    return FAILED if errors else DONE
