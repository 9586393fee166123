"""The options of authorization: which authorizer decides, and who may do everything."""

from __future__ import annotations

from typing import Final

from ottla.errors import ConfigError

CLASS_OPTION: Final = "authorizer.class.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Of Kafka with ZooKeeper; it decided by the same rules.
_FORMER: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
# Options that say something to an authorizer only.
OF_AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")


def check_authorizer(class_name: str) -> None:
    """Raises ConfigError for an authorizer that does not exist here; an empty name is none at all."""
    if class_name in ("", STANDARD_AUTHORIZER):
        return
    if class_name in _FORMER:
        raise ConfigError(
            f"{CLASS_OPTION}={class_name} is the former authorizer of Kafka: "
            f"write {CLASS_OPTION}={STANDARD_AUTHORIZER}, which decides by the same rules"
        )
    raise ConfigError(
        f"{CLASS_OPTION}={class_name} cannot be loaded, since it is Java: "
        f"write {CLASS_OPTION}={STANDARD_AUTHORIZER} for access by ACLs, or remove it to allow everything"
    )


def super_user_principals(text: str) -> tuple[str, ...]:
    """The principals of `super.users`, which semicolons separate: names may contain commas."""
    principals = tuple(part.strip() for part in text.split(";") if part.strip())
    for principal in principals:
        if ":" not in principal:
            raise ConfigError(
                f"super.users={text!r} is not valid: {principal!r} must have a type and a name, as in "
                f"User:{principal}; semicolons separate several"
            )
        if ",User:" in principal.replace(" ", ""):
            raise ConfigError(
                f"super.users={text!r} would be one principal with a long name: semicolons separate several"
            )
    return principals
