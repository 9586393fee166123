"""`ottla users`: SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, print_errors
from ottla.cli.exit_codes import DONE
from ottla.cli.security.acls import SHAPE as ACL_SHAPE
from ottla.cli.security.acls import rows_of as acl_rows_of
from ottla.cli.security.quotas import SHAPE as QUOTA_SHAPE
from ottla.cli.security.quotas import rows_of as quota_rows_of
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.cli.terminal.questions import new_password
from ottla.client.admin_model.acls import AclFilter
from ottla.client.admin_model.users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla.core.security.scram_formulas import BY_SASL_NAME, MAX_ITERATIONS, MIN_ITERATIONS
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

SHAPE: Final = columns(user="USER", mechanism="MECHANISM", iterations="ITERATIONS")
_SHOWS: Final = "`ottla users list` shows which there are"

Infos = tuple[ScramCredentialInfo, ...]


def create(arguments: Arguments) -> int:
    """Create a user; one that exists stays as it is."""
    name, mechanisms = arguments.name, _mechanisms(arguments) or list(ScramMechanism)
    iterations = _iterations(arguments) or MIN_ITERATIONS
    with admin_of(arguments) as admin:
        if _credentials(admin, name) is not None:
            raise CommandError(
                f"user {name} exists already", "`ottla users passwd` changes the password"
            )
        password = new_password(name, arguments.password_file)
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(name, password, each, iterations) for each in mechanisms]
        )
    Output("table").lines([f"user {name} created: {_names(mechanisms)}"])
    return DONE


def change_password(arguments: Arguments) -> int:
    """Change the password of a user who exists."""
    name, given = arguments.name, _iterations(arguments)
    with admin_of(arguments) as admin:
        present = _credentials(admin, name)
        if present is None:
            raise CommandError(f"there is no user {name}", _SHOWS)
        before = {info.mechanism: info.iterations for info in present}
        mechanisms = _mechanisms(arguments) or list(before)
        password = new_password(name, arguments.password_file)
        admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(
                    name, password, each, given or before.get(each, MIN_ITERATIONS)
                )
                for each in mechanisms
            ]
        )
    Output("table").lines([f"password of user {name} changed: {_names(mechanisms)}"])
    return DONE


def delete(arguments: Arguments) -> int:
    """Delete users, or some of their credentials."""
    names, mechanisms = _given_names(arguments), _mechanisms(arguments)
    with admin_of(arguments) as admin:
        found, errors = _described(admin, names)
        if arguments.if_exists:
            errors = {name: error for name, error in errors.items() if not _is_absence(error)}
        planned: dict[str, list[ScramMechanism]] = {}
        for name, infos in found.items():
            present = [info.mechanism for info in infos]
            missing = [each for each in mechanisms if each not in present]
            if missing:
                errors[name] = CommandError(
                    f"user {name} has no credential for {_names(missing)}",
                    "`ottla users describe` shows which there are",
                )
            else:
                planned[name] = mechanisms or present
        word = "would be deleted" if arguments.dry_run else "deleted"
        gone: Mapping[str, object] = planned
        if not arguments.dry_run:
            gone, failed = attempt(planned, lambda: _delete(admin, planned))
            errors |= failed
    Output("table").lines(f"user {name} {word}: {_names(planned[name])}" for name in gone)
    return print_errors(errors.values())


def _delete(admin: Admin, planned: Mapping[str, Iterable[ScramMechanism]]) -> None:
    deletions: list[UserScramCredentialAlteration] = [
        UserScramCredentialDeletion(name, each)
        for name, mechanisms in planned.items()
        for each in mechanisms
    ]
    admin.alter_user_scram_credentials(deletions)


def list_users(arguments: Arguments) -> int:
    """List the users with their credentials."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            found = admin.describe_user_scram_credentials()
            output.rows(SHAPE, [row for name in found for row in _rows(name, found[name])])
            if not found and output.is_table:
                say("there are no users")
            return DONE

        return repeat(arguments.watch, show)


def describe(arguments: Arguments) -> int:
    """Show the credentials, ACLs and quotas of users."""
    names = _given_names(arguments)
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            found, errors = _described(admin, names)
            users = [
                {
                    "user": name,
                    "credentials": _rows(name, infos),
                    "acls": _acl_rows(admin, name),
                    "quotas": quota_rows_of(admin.describe_client_quotas(user=name)),
                }
                for name, infos in found.items()
            ]
            if output.is_table:
                for user in users:
                    _show_user(output, user)
            else:
                output.data(users)
            return print_errors(errors.values())

        return repeat(arguments.watch, show)


def _show_user(output: Output, user: Mapping[str, Any]) -> None:
    output.rows(SHAPE, user["credentials"])
    for shape, rows in ((ACL_SHAPE, user["acls"]), (QUOTA_SHAPE, user["quotas"])):
        if rows:
            output.lines([""])
            output.rows(shape, rows)


def _acl_rows(admin: Admin, name: str) -> list[dict[str, Any]]:
    """The ACLs that name the user, or everybody; none where the cluster has no authorizer."""
    try:
        return acl_rows_of(
            acl
            for principal in (f"User:{name}", "User:*")
            for acl in admin.describe_acls(AclFilter(principal=principal))
        )
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        return []


def _rows(name: str, infos: Infos) -> list[dict[str, Any]]:
    return [
        {"user": name, "mechanism": each.mechanism.sasl_name, "iterations": each.iterations}
        for each in infos
    ]


def _credentials(admin: Admin, name: str) -> Infos | None:
    """The credentials of a user; None without any."""
    try:
        return admin.describe_user_scram_credentials([name])[name]
    except KafkaError as error:
        if error.code is not ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return None


def _described(admin: Admin, names: list[str]) -> tuple[dict[str, Infos], dict[str, OttlaError]]:
    """The credentials of users, and the errors of the others."""
    found, failed = attempt(names, lambda: admin.describe_user_scram_credentials(names))
    errors: dict[str, OttlaError] = {
        name: CommandError(f"there is no user {name}", _SHOWS)
        if error.code is ErrorCode.RESOURCE_NOT_FOUND
        else error
        for name, error in failed.items()
    }
    return found, errors


def _is_absence(error: OttlaError) -> bool:
    return isinstance(error, CommandError)


def _given_names(arguments: Arguments) -> list[str]:
    names = list(dict.fromkeys(arguments.names))
    if not names:
        raise UsageError("no user is named", _SHOWS)
    return names


def _mechanisms(arguments: Arguments) -> list[ScramMechanism]:
    return [BY_SASL_NAME[each] for each in dict.fromkeys(arguments.mechanisms)]


def _iterations(arguments: Arguments) -> int | None:
    given: int | None = arguments.iterations
    if given is not None and not MIN_ITERATIONS <= given <= MAX_ITERATIONS:
        raise UsageError(
            f"--iterations {given}", f"from {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
        )
    return given


def _names(mechanisms: Iterable[ScramMechanism]) -> str:
    return ", ".join(each.sasl_name for each in mechanisms)
