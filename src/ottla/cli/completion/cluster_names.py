"""Names of topics, groups and transactional ids in the cluster, for completion."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands.syntax import Arguments

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
            if kind == "GROUP":
                return sorted(admin.list_groups())
            if kind == "TRANSACTIONAL-ID":
                return sorted(admin.list_transactions())
            return sorted(admin.list_topics(list_internal=True))
    except (OttlaError, OSError, ValueError):
        return []
    finally:
        log.setLevel(level_before)
