"""Names of topics, groups, transactional ids and users in the cluster, for completion."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

TIMEOUT_SECONDS: Final = 1.0


def find(kind: str, connection: Arguments) -> list[str]:
    """The names of one kind; none if the cluster cannot be asked."""
    import logging

    from ottla.cli.connection import admin_of
    from ottla.errors import OttlaError

    log = logging.getLogger("ottla")
    level_before = log.level
    log.setLevel(logging.CRITICAL + 1)
    connection.timeout = TIMEOUT_SECONDS
    try:
        with admin_of(connection) as admin:
            return sorted(_names(admin, kind))
    except (OttlaError, OSError, ValueError):
        return []
    finally:
        log.setLevel(level_before)


def _names(admin: Admin, kind: str) -> Iterable[str]:
    match kind:
        case "GROUP":
            return admin.list_groups()
        case "TRANSACTIONAL-ID":
            return admin.list_transactions()
        case "USER":
            return admin.describe_user_scram_credentials()
        case "PRINCIPAL":
            return _principals(admin)
    return admin.list_topics(list_internal=True)


def _principals(admin: Admin) -> set[str]:
    """Users with a password, and whom ACLs name; whatever of both the cluster has and shows."""
    from ottla.errors import KafkaError

    found: set[str] = set()
    with suppress(KafkaError):
        found |= {f"User:{name}" for name in admin.describe_user_scram_credentials()}
    with suppress(KafkaError):
        found |= {acl.principal for acl in admin.describe_acls()}
    return found
