"""`ottla completion`: the scripts for shells, which ask this command for what can come next."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.cli.commands.completion import CANDIDATES
from ottla.cli.completion.words import FILES, Candidate, Completion, complete
from ottla.cli.errors import DONE

_NAMES_SECONDS: Final = 1.0
# Instead of candidates: the shell knows the files.
_FILES_LINE: Final = "<files>"
# Readline takes these for ends of words, and wants what comes behind the last of them.
_READLINE_BREAKS: Final = ":="

_BASH: Final = """\
_ottla_complete() {
    local word rest
    COMPREPLY=()
    while IFS=$'\\t' read -r word rest; do
        if [[ $word == '<files>' ]]; then
            compopt -o default 2>/dev/null
            return
        fi
        COMPREPLY+=("$(printf '%q' "$word")")
    done < <("$1" completion --line candidates "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -F _ottla_complete ottla
"""

_ZSH: Final = """\
#compdef ottla
_ottla() {
    local line word meaning
    local -a lines found
    lines=("${(@f)$("${words[1]}" completion candidates "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ ${lines[1]} == '<files>' ]]; then
        _files
        return
    fi
    for line in "${lines[@]}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\\t'*}
        meaning=${line#*$'\\t'}
        found+=("${word//:/\\\\:}${meaning:+:$meaning}")
    done
    _describe 'ottla' found
}
if [[ ${funcstack[1]} == _ottla ]]; then
    _ottla "$@"
else
    compdef _ottla ottla
fi
"""

_FISH: Final = """\
function __ottla_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    test (count $current) -gt 0; or set current ''
    set -l found ($before[1] completion candidates $before $current 2>/dev/null)
    if test "$found[1]" = '<files>'
        __fish_complete_path $current
    else
        printf '%s\\n' $found
    end
end
complete -c ottla -f -a '(__ottla_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def run(arguments: argparse.Namespace) -> int:
    """Prints a script, or what a script asked for."""
    if arguments.shell != CANDIDATES:
        print(SCRIPTS[arguments.shell], end="")
        return DONE
    words = split_line(arguments.words[0]) if arguments.line else arguments.words
    if len(words) > 1:
        with _ends_soon():
            found = lines_of(words, is_line=arguments.line)
        for line in found:
            print(line)
    return DONE


@contextmanager
def _ends_soon() -> Iterator[None]:
    """Whoever has pressed a key does not wait for a broker: whatever hangs, the process ends."""
    before = signal.signal(signal.SIGALRM, lambda *_: os._exit(DONE))
    signal.setitimer(signal.ITIMER_REAL, 2 * _NAMES_SECONDS)
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
    """What could stand in the place of the last word, each with what it means."""
    from ottla.cli.main import parser

    completion = complete(parser(), words[1:])
    if completion.kind == FILES:
        return [_FILES_LINE]
    current = words[-1]
    found = [
        *completion.candidates,
        *(Candidate(completion.prefix + name) for name in _names(completion)),
    ]
    cut = max(current.rfind(each) for each in _READLINE_BREAKS) + 1 if is_line else 0
    return [f"{each.word[cut:]}\t{each.meaning}" for each in found if each.word.startswith(current)]


def _names(completion: Completion) -> list[str]:
    """Names of the cluster's things; none if it cannot be asked, since there is nobody to complain to."""
    if completion.kind is None:
        return []
    import logging

    from ottla.cli.connection import admin_of
    from ottla.errors import OttlaError

    log = logging.getLogger("ottla")
    level_before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with admin_of(completion.connection(_NAMES_SECONDS)) as admin:
            if completion.kind == "GROUP":
                return sorted(admin.list_groups())
            if completion.kind == "TRANSACTIONAL-ID":
                return sorted(admin.list_transactions())
            return sorted(admin.list_topics(list_internal=True))
    except (OttlaError, OSError, ValueError):
        return []
    finally:
        log.setLevel(level_before)
