"""`ottla completion`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.parameters import add_examples

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

SHELLS: Final = ("bash", "zsh", "fish")
# What the scripts call: `candidates WORD…`, or with --line the whole line up to the cursor.
CANDIDATES: Final = "candidates"


class _Shells(tuple[str, ...]):
    """What users choose from; the scripts' own word is taken too."""

    __slots__ = ()

    def __contains__(self, word: object) -> bool:
        return word == CANDIDATES or super().__contains__(word)


def add(commands: Commands) -> None:
    """The command and its arguments."""
    completion = commands.add_parser(
        "completion",
        help="complete commands, options and names in bash, zsh or fish",
        description="Prints a script for your shell, which then completes commands, options and their values,\n"
        "and asks the broker for the names of topics and groups.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.set_defaults(run="completion.answer:run")
    completion.add_argument("--line", action="store_true", help=argparse.SUPPRESS)
    completion.add_argument(
        "shell", metavar="bash|zsh|fish", choices=_Shells(SHELLS), help="your shell"
    )
    words = completion.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    words.required = False  # or argparse would ask for it
    add_examples(
        completion,
        "source <(ottla completion bash)                              # in ~/.bashrc",
        "source <(ottla completion zsh)                               # in ~/.zshrc, after compinit",
        "ottla completion fish > ~/.config/fish/completions/ottla.fish",
    )
