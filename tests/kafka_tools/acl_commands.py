"""Commands of kafka-acls, and what of their output is the same on every cluster."""

from __future__ import annotations

import re
from typing import Final

from tests.kafka_tools.commands import Command, comparable

_ACLS: Final = "org.apache.kafka.tools.AclCommand"


def _acls(arguments: str) -> Command:
    return Command(_ACLS, f"AT {arguments}")


# In this order: some change what later ones show.
ACL_COMMANDS: Final = (
    _acls("--list"),
    _acls("--add --allow-principal User:alice --operation Read --topic orders"),
    _acls("--add --allow-principal User:alice --operation Read --topic orders"),
    _acls(
        "--add --allow-principal User:alice --allow-principal User:bob --allow-host 10.0.0.7 "
        "--operation Write --operation Describe --topic orders --topic payments"
    ),
    _acls("--add --deny-principal User:mallory --deny-host * --operation All --topic *"),
    _acls(
        "--add --allow-principal User:carol --operation All --topic team- "
        "--resource-pattern-type prefixed"
    ),
    _acls("--add --allow-principal User:alice --producer --topic orders"),
    _acls(
        "--add --allow-principal User:alice --producer --idempotent --topic orders "
        "--transactional-id tx"
    ),
    _acls("--add --allow-principal User:bob --consumer --topic orders --group readers"),
    _acls("--add --allow-principal User:dave --operation Describe --cluster"),
    _acls("--add --allow-principal User:dave --operation CreateTokens --user-principal User:bob"),
    _acls(
        "--add --allow-principal User:dave --operation Describe --delegation-token abc --group *"
    ),
    _acls("--list"),
    _acls("--list --topic orders"),
    _acls("--list --topic team-blue --resource-pattern-type match"),
    _acls("--list --topic orders --resource-pattern-type any"),
    _acls("--list --principal User:bob --topic orders"),
    _acls("--list --topic missing"),
    _acls("--remove --force --allow-principal User:alice --operation Read --topic orders"),
    _acls("--remove --force --topic payments"),
    _acls("--remove --force --topic missing"),
    _acls("--remove --force --topic team-blue --resource-pattern-type match"),
    _acls("--remove --force --allow-principal User:bob --consumer --topic orders --group readers"),
    _acls("--list"),
    _acls("--remove --force --cluster"),
    _acls("--remove --force --group *"),
    _acls("--list"),
)

# Where the text about a resource begins, or that about an ACL.
_PARTS: Final = re.compile(r"^(?=Current ACLs|Adding ACLs|Acl \()", re.MULTILINE)


def comparable_acls(title: str, text: str) -> str:
    """As `comparable`; resources and their ACLs are in the order of a hash table."""
    parts = _PARTS.split(comparable(title.replace("--list", ""), text))
    blocks = []
    for part in parts:
        head, *acls = part.strip().split("\n")
        blocks.append("\n".join([head, *sorted(acls)]).strip())
    return "\n".join(sorted(filter(None, blocks)))
