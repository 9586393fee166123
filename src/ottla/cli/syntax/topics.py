"""`ottla topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.syntax.pieces import add_form, add_group, add_verb, add_watch

if TYPE_CHECKING:
    from ottla.cli.syntax.pieces import Commands


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "topics", "create, list, describe, alter and delete topics")
    listing = add_verb(verbs, "list", "list the topics", "topics:list_topics")
    listing.add_argument(
        "--exclude-internal", action="store_true", help="leave out the broker's own topics"
    )
    add_form(listing)
    add_watch(listing)
