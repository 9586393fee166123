"""`ottla completion`: prints the script for a shell, or the candidates that a script asks for."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from ottla.cli.commands.completion import CANDIDATES
from ottla.cli.commands.root import ROOT
from ottla.cli.commands.syntax import Arguments
from ottla.cli.completion.cluster_names import TIMEOUT_SECONDS
from ottla.cli.completion.scripts import SCRIPTS
from ottla.cli.exit_codes import DONE

# Printed instead of candidates where the shell should complete file names.
_FILES_LINE: Final = "<files>"
# Readline ends words at these characters, and expects only the part after the last of them.
_READLINE_BREAKS: Final = ":="


def run(arguments: Arguments) -> int:
    """Print a script, or the candidates for an unfinished line."""
    if arguments.shell != CANDIDATES:
        print(SCRIPTS[arguments.shell], end="")
        return DONE
    words = split_line(arguments.words[0]) if arguments.line else arguments.words
    if len(words) > 1:
        with _time_limit():
            found = lines_of(words, is_line=arguments.line)
        for line in found:
            print(line)
    return DONE


@contextmanager
def _time_limit() -> Iterator[None]:
    """End the process if completion takes too long: a key press must not wait for a broker."""
    before = signal.signal(signal.SIGALRM, lambda *_: os._exit(DONE))
    signal.setitimer(signal.ITIMER_REAL, 2 * TIMEOUT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def split_line(line: str) -> list[str]:
    """The words of a line up to the cursor; the last is the one to complete, and may have an open quote."""
    for closing in ("", '"', "'"):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        return [*words, ""] if not closing and line[-1:].isspace() else words
    return []


def lines_of(words: list[str], *, is_line: bool) -> list[str]:
    """The candidates for the last word, each with its meaning."""
    current = words[-1]
    found = candidates(words[1:])
    if any(each.type == "file" for each in found):
        return [_FILES_LINE]
    cut = max(current.rfind(each) for each in _READLINE_BREAKS) + 1 if is_line else 0
    return [
        f"{each.value[cut:]}\t{meaning(each)}" for each in found if each.value.startswith(current)
    ]


def candidates(words: Sequence[str]) -> list[CompletionItem]:
    """The candidates that click finds for the last word; for --flag=VALUE with the flag in front."""
    *before, current = words
    flag, is_assigned, _ = current.partition("=")
    shell = ShellComplete(ROOT, {}, "ottla", "")
    try:
        found = shell.get_completions(before, current)
    except click.UsageError:
        return []
    if flag.startswith("-") and is_assigned and "--" not in before:
        for each in found:
            each.value = f"{flag}={each.value}"
    return found


def meaning(candidate: CompletionItem) -> str:
    """The first clause of the help of a candidate."""
    return " ".join((candidate.help or "").split(";")[0].split())
