"""The users that a broker is started with: their credentials are written only where they do not fit the passwords."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial

from ottla.broker.catalog_changes import Decision
from ottla.broker.cluster import Cluster
from ottla.core.catalog import Catalog, Changes
from ottla.core.security.absent_credentials import SALT_BITS, salt_of_number
from ottla.core.security.scram_credentials import (
    ScramCredential,
    credential_of_password,
    fits_password,
)
from ottla.core.security.scram_formulas import MIN_ITERATIONS, ScramMechanism
from ottla.events import EventLog
from ottla.ports import StorageError
from ottla.ports.futures import settled

logger = EventLog(__name__)


def ensure_users(cluster: Cluster, passwords: Mapping[str, str]) -> None:
    """Gives users their passwords, for every mechanism of SCRAM; takes some milliseconds for each."""
    set_passwords(cluster.catalog, passwords, cluster.commit)


async def change_users(cluster: Cluster, passwords: Mapping[str, str]) -> None:
    """As `ensure_users`, where other processes change the catalog too; raises StorageError."""
    decided: list[Changes] = []
    set_passwords(cluster.catalog, passwords, decided.append)
    for changes in decided:
        refused = await settled(cluster.change(partial(Decision, changes, None)))
        if refused is not None:
            raise StorageError(refused.text)


def set_passwords(
    catalog: Catalog, passwords: Mapping[str, str], commit: Callable[[Changes], object]
) -> None:
    """As `ensure_users`, for a catalog that the caller commits changes to."""
    changes: dict[tuple[ScramMechanism, str], ScramCredential | None] = {}
    for user, password in passwords.items():
        for mechanism in ScramMechanism:
            known = catalog.users.find(mechanism, user)
            if known is None or not fits_password(mechanism, known, password):
                changes[mechanism, user] = credential_of_password(
                    mechanism, password, new_salt(), MIN_ITERATIONS
                )
    if not changes:
        return
    commit(catalog.set_credentials(changes))
    for mechanism, user in changes:
        logger.info(
            "user_credential_changed",
            "the credential of user %(user)s for %(mechanism)s is %(change)s",
            user=user,
            mechanism=mechanism.sasl_name,
            change="set",
        )


def new_salt() -> bytes:
    """A salt as Kafka's tools make it."""
    return salt_of_number(secrets.randbits(SALT_BITS))
