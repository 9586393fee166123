"""`ottla quotas`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.client.admin_model.quotas import QuotaEntity, QuotaName

SHAPE: Final = columns(user="USER", client_id="CLIENT-ID", ip="IP", quota="QUOTA", value="VALUE")
_DEFAULT: Final = "(default)"
_OF_ADDRESSES: Final = "connection_creation_rate"

Name = str | QuotaName | None


def list_quotas(arguments: Arguments) -> int:
    """List the quotas that were set."""
    output = Output(arguments.form)
    user, client_id, ip = _names(arguments)
    if arguments.strict and (user, client_id, ip) == (None, None, None):
        raise UsageError("--strict needs to know whom", "give --user, --client-id or --ip")
    with admin_of(arguments) as admin:

        def show() -> int:
            found = admin.describe_client_quotas(
                user=user, client_id=client_id, ip=ip, strict=arguments.strict
            )
            rows = rows_of(found)
            output.rows(SHAPE, rows)
            if not rows and output.is_table:
                say("there are no such quotas")
            return DONE

        return repeat(arguments.watch, show)


def set_quotas(arguments: Arguments) -> int:
    """Set quotas of an entity; its others stay."""
    entity = _entity(arguments)
    if not arguments.settings:
        raise UsageError("nothing to set", "write NAME=VALUE")
    changes: dict[str, float | None] = dict(arguments.settings)
    for name in changes:
        if (name == _OF_ADDRESSES) != (entity.ip is not None):
            raise UsageError(
                f"{name} is no quota of {entity}",
                f"{_OF_ADDRESSES} is the one of addresses, and theirs alone",
            )
    with admin_of(arguments) as admin:
        admin.alter_client_quotas({entity: changes}, validate_only=arguments.dry_run)
    word = "would be set" if arguments.dry_run else "set"
    text = ", ".join(
        name if value is None else f"{name}={_number(value)}" for name, value in changes.items()
    )
    Output("table").lines([f"quotas of {entity} {word}: {text}"])
    return DONE


def remove(arguments: Arguments) -> int:
    """Remove quotas of an entity; one that is not set may be misspelt, and is an error."""
    entity = _entity(arguments)
    if bool(arguments.names) == arguments.all:
        raise UsageError("which quotas?", "name some, or give --all")
    with admin_of(arguments) as admin:
        found = admin.describe_client_quotas(
            user=entity.user, client_id=entity.client_id, ip=entity.ip, strict=True
        ).get(entity, {})
        names = list(dict.fromkeys(arguments.names)) or list(found)
        missing = [name for name in names if name not in found]
        if missing or not names:
            what = ", ".join(missing) or "no quota"
            raise CommandError(
                f"{what} is set for {entity}" if not missing else f"{what} is not set for {entity}",
                "`ottla quotas list` shows which there are",
            )
        admin.alter_client_quotas({entity: dict.fromkeys(names)}, validate_only=arguments.dry_run)
    word = "would be removed" if arguments.dry_run else "removed"
    Output("table").lines([f"quotas of {entity} {word}: {', '.join(names)}"])
    return DONE


def rows_of(found: Mapping[QuotaEntity, Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for each quota."""
    return [
        {
            "user": _text(entity.user),
            "client_id": _text(entity.client_id),
            "ip": _text(entity.ip),
            "quota": name,
            "value": _number(value),
        }
        for entity, quotas in found.items()
        for name, value in quotas.items()
    ]


def _number(value: float) -> float:
    """Without a fraction that is 0; never rounded."""
    return int(value) if value.is_integer() else value


def _text(name: Name) -> str | None:
    return name if isinstance(name, str) or name is None else _DEFAULT


def _entity(arguments: Arguments) -> QuotaEntity:
    names = _names(arguments)
    if names == (None, None, None):
        raise UsageError(
            "for whom?",
            "give --user, --client-id or --ip, or --default-user, --default-client-id or --default-ip",
        )
    user, client_id, ip = names
    if ip is not None and (user, client_id) != (None, None):
        raise UsageError("quotas of addresses are for all users and clients", "give --ip alone")
    return QuotaEntity(user, client_id, ip)


def _names(arguments: Arguments) -> tuple[Name, Name, Name]:
    return (
        QuotaName.DEFAULT if arguments.default_user else arguments.user,
        QuotaName.DEFAULT if arguments.default_client_id else arguments.client_id,
        QuotaName.DEFAULT if arguments.default_ip else arguments.ip,
    )
