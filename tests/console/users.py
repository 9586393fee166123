"""Users of a secured broker, and their rights."""

from __future__ import annotations

from contextlib import suppress

import ottla
from ottla.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from ottla.errors import KafkaError

CLUSTER = (AclResourceType.CLUSTER, "kafka-cluster")
DESCRIBE = AclOperation.DESCRIBE
VIEWER = (DESCRIBE,)
OPERATOR = (DESCRIBE, AclOperation.ALTER)
ADMIN = (DESCRIBE, AclOperation.ALTER_CONFIGS)


def user(broker: ottla.Broker, name: str, *operations: AclOperation) -> dict[str, str]:
    """A user with these rights on the cluster: what the login form takes."""
    options = broker.client_options(name)
    if operations:
        allow(broker, name, *CLUSTER, *operations)
    return {"user": name, "password": options["sasl.password"]}


def allow(
    broker: ottla.Broker,
    name: str,
    kind: AclResourceType,
    resource: str,
    *operations: AclOperation,
) -> None:
    """Give a user rights."""
    with ottla.Admin(broker.client_options()) as admin:
        admin.create_acls(
            AclBinding(
                kind,
                resource,
                PatternType.LITERAL,
                f"User:{name}",
                "*",
                each,
                AclPermission.ALLOW,
            )
            for each in operations
        )


def withdraw(broker: ottla.Broker, name: str) -> None:
    """Take all rights from a user."""
    with ottla.Admin(broker.client_options()) as admin:
        admin.delete_acls([AclFilter(principal=f"User:{name}")])


def delete_user(broker: ottla.Broker, name: str) -> None:
    """Remove a user with its password."""
    with ottla.Admin(broker.client_options()) as admin:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            with suppress(KafkaError):
                admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)])
