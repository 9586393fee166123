"""`ottla acls`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import attempt, print_errors
from ottla.cli.exit_codes import DONE
from ottla.cli.security.acl_selection import (
    principal_of,
    resource_filters,
    wanted_acls,
    wanted_filters,
    word_of,
)
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.cli.terminal.questions import is_confirmed
from ottla.client.admin_model.acls import AclBinding

SHAPE: Final = columns(
    resource_type="RESOURCE",
    name="NAME",
    pattern_type="PATTERN",
    principal="PRINCIPAL",
    host="HOST",
    operation="OPERATION",
    permission="PERMISSION",
)


def create(arguments: Arguments) -> int:
    """Add ACLs."""
    wanted = wanted_acls(arguments)
    if arguments.dry_run:
        Output("table").lines(f"would be created: {text_of(acl)}" for acl in wanted)
        return DONE
    with admin_of(arguments) as admin:
        done, errors = attempt(wanted, lambda: admin.create_acls(wanted))
    Output("table").lines(f"created: {text_of(acl)}" for acl in done)
    return print_errors(errors.values())


def list_acls(arguments: Arguments) -> int:
    """List the ACLs of resources, or all."""
    output = Output(arguments.form)
    filters = resource_filters(arguments)
    principals = [principal_of(each) for each in arguments.principals]
    with admin_of(arguments) as admin:

        def show() -> int:
            found = {acl for each in filters for acl in admin.describe_acls(each)}
            if principals:
                found = {acl for acl in found if acl.principal in principals}
            output.rows(SHAPE, rows_of(found))
            if not found and output.is_table:
                say("there are no such ACLs")
            return DONE

        return repeat(arguments.watch, show)


def delete(arguments: Arguments) -> int:
    """Show the ACLs that match, and delete them if that is confirmed."""
    filters = wanted_filters(arguments)
    output = Output(arguments.form)
    with admin_of(arguments) as admin:
        found = sorted({acl for each in filters for acl in admin.describe_acls(each)})
        output.rows(SHAPE, rows_of(found))
        if not found:
            say("there are no such ACLs")
            return DONE
        if not arguments.is_sure:
            if arguments.dry_run or not sys.stdin.isatty():
                say("dry run: nothing was deleted; --yes deletes these ACLs")
                return DONE
            if not is_confirmed(f"Delete {_count(found)}?"):
                say("nothing was deleted")
                return DONE
        # Exactly those that were shown, even if others have come.
        exact = {acl.to_filter(): acl for acl in found}
        gone, errors = attempt(exact, lambda: admin.delete_acls(exact))
    say(f"{_count(gone)} deleted")
    return print_errors(errors.values())


def _count(acls: Iterable[object]) -> str:
    number = len([*acls])
    return "1 ACL" if number == 1 else f"{number} ACLs"


def rows_of(acls: Iterable[AclBinding]) -> list[dict[str, Any]]:
    """The rows of ACLs, sorted."""
    return [
        {
            "resource_type": word_of(acl.resource_type),
            "name": acl.name,
            "pattern_type": word_of(acl.pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "operation": word_of(acl.operation),
            "permission": word_of(acl.permission),
        }
        for acl in sorted(acls)
    ]


def text_of(acl: AclBinding) -> str:
    """An ACL in one line."""
    verb = "may" if acl.permission.name == "ALLOW" else "may not"
    name = f"{acl.name}*" if acl.pattern_type.name == "PREFIXED" else acl.name
    where = "" if acl.host == "*" else f" from {acl.host}"
    what = word_of(acl.operation)
    resource = word_of(acl.resource_type)
    on = resource if resource == "Cluster" else f"{resource} {name}"
    return f"{acl.principal} {verb} {what} {on}{where}"
