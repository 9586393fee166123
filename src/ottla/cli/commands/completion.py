"""`ottla completion`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Choice, Flag
from ottla.cli.commands.shared_options import examples
from ottla.cli.commands.syntax import Command

# The scripts call `candidates WORD…`, or with --line the whole line up to the cursor.
CANDIDATES: Final = "candidates"

COMMAND: Final = Command(
    "completion",
    SUMMARIES["completion"],
    "completion.candidates:run",
    [
        Flag("--line", "one word is the whole line", hidden=True),
        Argument(
            "shell",
            "your shell",
            metavar="bash|zsh|fish",
            type=Choice("bash", "zsh", "fish", hidden=CANDIDATES),
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
