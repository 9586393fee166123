"""`ottla completion`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import examples
from ottla.cli.commands.syntax import Argument, Choice, Command, Option

# What the scripts call: `candidates WORD…`, or with --line the whole line up to the cursor.
CANDIDATES: Final = "candidates"

COMMAND: Final = Command(
    "completion",
    SUMMARIES["completion"],
    "completion.candidates:run",
    [
        Option("--line", is_flag=True, hidden=True, help="one word is the whole line"),
        Argument(
            "shell",
            metavar="bash|zsh|fish",
            type=Choice("bash", "zsh", "fish", hidden=CANDIDATES),
            help="your shell",
        ),
        Argument("words", nargs=-1),
    ],
    description="Prints a script for your shell, which then completes commands, options and their values,\n"
    "and asks the broker for the names of topics and groups.",
    epilog=examples(
        "source <(ottla completion bash)                              # in ~/.bashrc",
        "source <(ottla completion zsh)                               # in ~/.zshrc, after compinit",
        "ottla completion fish > ~/.config/fish/completions/ottla.fish",
    ),
    context_settings={"allow_interspersed_args": False},
)
