"""`ottla acls`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Choice, Flag, Option, exclusive, section
from ottla.cli.commands.shared_options import (
    GROUP,
    PRINCIPAL,
    TOPIC,
    TRANSACTIONAL_ID,
    Value,
    connection,
    dry_run,
    examples,
    form,
    listing,
)
from ottla.cli.commands.syntax import Command, Group

# In Kafka's words. Which of them a resource has, the command checks.
OPERATIONS: Final = (
    "All",
    "Read",
    "Write",
    "Create",
    "Delete",
    "Alter",
    "Describe",
    "ClusterAction",
    "DescribeConfigs",
    "AlterConfigs",
    "IdempotentWrite",
    "CreateTokens",
    "DescribeTokens",
    "TwoPhaseCommit",
)
_BY_LETTERS: Final = {name.lower(): name for name in OPERATIONS}

_CREATE_TEXT: Final = """\
Adds ACLs: one for each resource, principal, host and operation that is given.

--producer stands for Write, Describe and Create on the topics, and Write and Describe on the transactional ids.
--consumer stands for Read and Describe on the topics, and Read on the groups. Both may be given together. An ACL that
denies wins over all that allow.
"""
_DELETE_TEXT: Final = """\
Deletes ACLs. Shows those that match, and asks; --yes deletes them without a question. Where there is no terminal to ask
at, this is a dry run unless --yes is given.

Without --allow-principal and --deny-principal all ACLs of the resources are deleted. --resource-pattern-type match
also deletes ACLs of prefixes and of '*' that apply to the named resources: others may depend on those.
"""


def _operation(text: str) -> str:
    found = _BY_LETTERS.get(text.replace("_", "").replace("-", "").lower())
    if found is None:
        raise click.BadParameter(f"{text!r} is none of {', '.join(OPERATIONS)}")
    return found


def _resources() -> list[Option]:
    return section(
        "resources",
        [
            Option(
                "--topic topics",
                "a topic, '*' for all; repeatable",
                metavar="TOPIC",
                type=TOPIC,
                multiple=True,
            ),
            Option(
                "--group groups",
                "a group, '*' for all; repeatable",
                metavar="GROUP",
                type=GROUP,
                multiple=True,
            ),
            Flag("--cluster", "the cluster"),
            Option(
                "--transactional-id transactional_ids",
                "a transactional id, '*' for all; repeatable",
                metavar="ID",
                type=TRANSACTIONAL_ID,
                multiple=True,
            ),
            Option(
                "--delegation-token tokens",
                "a delegation token, by its id; repeatable",
                metavar="ID",
                multiple=True,
            ),
            Option(
                "--user-principal users",
                "a user whose delegation tokens others may create and describe; repeatable",
                metavar="USER",
                multiple=True,
            ),
        ],
    )


def _pattern_type(help_text: str, *types: str) -> Option:
    return Option(
        "--resource-pattern-type pattern_type", help_text, type=Choice(*types), default="literal"
    )


def _rules() -> list[Option]:
    return section(
        "who may do what",
        [
            Option(
                "--allow-principal allowed",
                "who is allowed to, as User:alice; 'User:*' is everybody; repeatable",
                metavar="PRINCIPAL",
                type=PRINCIPAL,
                multiple=True,
            ),
            Option(
                "--deny-principal denied",
                "who is not; repeatable",
                metavar="PRINCIPAL",
                type=PRINCIPAL,
                multiple=True,
            ),
            Option(
                "--allow-host allowed_hosts",
                "from which IP address; default: '*', all of them; repeatable",
                metavar="ADDRESS",
                multiple=True,
            ),
            Option(
                "--deny-host denied_hosts",
                "the same for --deny-principal; repeatable",
                metavar="ADDRESS",
                multiple=True,
            ),
            Option(
                "--operation operations",
                f"{', '.join(OPERATIONS)}; default: All; repeatable",
                metavar="OPERATION",
                type=_Operation("operation", _operation),
                multiple=True,
            ),
            Flag("--producer", "what a producer of the topics needs"),
            Flag("--idempotent", "with --producer: IdempotentWrite, for brokers before Kafka 2.8"),
            Flag("--consumer", "what a consumer of the topics in the groups needs"),
        ],
    )


class _Operation(Value):
    """An operation, in any case and with or without underscores."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """The operations that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name)
            for name in OPERATIONS
            if name.lower().startswith(incomplete.lower())
        ]


_CREATE: Final = Command(
    "create",
    "add ACLs",
    "security.acls:create",
    [
        *_resources(),
        _pattern_type("whether names are whole names or prefixes", "literal", "prefixed"),
        *_rules(),
        dry_run(),
        *connection(),
    ],
    description=_CREATE_TEXT,
    epilog=examples(
        "ottla acls create --allow-principal User:till --producer --topic orders",
        "ottla acls create --allow-principal User:kitchen --consumer --topic orders --group kitchen",
        "ottla acls create --allow-principal User:bar --operation Read --topic orders- \\",
        "    --resource-pattern-type prefixed",
        "ottla acls create --deny-principal User:guest --allow-principal 'User:*' --operation Describe --cluster",
    ),
    instead={"--principal": "--allow-principal or --deny-principal"},
)
_LIST: Final = Command(
    "list",
    "list ACLs",
    "security.acls:list_acls",
    [
        *_resources(),
        _pattern_type(
            "with names: match is for all ACLs that apply to the resource; default: literal",
            "literal",
            "prefixed",
            "any",
            "match",
        ),
        Option(
            "--principal principals",
            "only ACLs of this principal, as User:alice; repeatable",
            metavar="PRINCIPAL",
            type=PRINCIPAL,
            multiple=True,
        ),
        *listing(),
    ],
    epilog=examples(
        "ottla acls list",
        "ottla acls list --principal User:till",
        "ottla acls list --topic orders --resource-pattern-type match",
    ),
)
_DELETE: Final = Command(
    "delete",
    "delete ACLs",
    "security.acls:delete",
    [
        *_resources(),
        _pattern_type(
            "which ACLs the names stand for; default: literal",
            "literal",
            "prefixed",
            "any",
            "match",
        ),
        *_rules(),
        *exclusive(
            Flag("--yes --force is_sure", "delete without asking"),
            dry_run("only show what would be deleted"),
        ),
        form(),
        *connection(),
    ],
    description=_DELETE_TEXT,
    epilog=examples(
        "ottla acls delete --topic orders",
        "ottla acls delete --allow-principal User:till --producer --topic orders --yes",
    ),
    instead={"--principal": "--allow-principal or --deny-principal"},
)

COMMAND: Final = Group(
    "acls",
    SUMMARIES["acls"],
    [_CREATE, _LIST, _DELETE],
    instead={"add": "create", "remove": "delete"},
)
