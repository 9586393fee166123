"""Arguments as argparse reads them, with errors that say what was meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from ottla.cli.exit_codes import USAGE


class Parser(argparse.ArgumentParser):
    """The parser of the command, of its commands and of their verbs.

    Options and names come in any order: argparse itself gives all names that a list may have to the first that come
    together, so that `produce TOPIC -l FILE` fails.
    """

    _is_parsing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses what it does not know at once: a verb knows its flags better than the command above it."""
        if self._is_parsing:  # argparse itself, which takes the options out first
            return super().parse_known_args(args, namespace)
        if self._has_list():
            self._is_parsing = True
            try:
                found, unknown = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._is_parsing = False
        else:
            found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return found, unknown

    def _has_list(self) -> bool:
        names = self._get_positional_actions()
        if any(isinstance(action, argparse._SubParsersAction) for action in names):
            return False
        return any(action.nargs in ("*", "+", "?") for action in names)

    def _unknown(self, unknown: list[str]) -> str:
        flags = [word for word in unknown if word.startswith("-") and word != "-"]
        if not flags:
            return f"{' '.join(unknown)!r} is more than this command takes"
        flag = flags[0].partition("=")[0]
        return f"there is no {flag} here{_meant(flag, self._option_string_actions)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        named = ", ".join(map(str, choices))
        if isinstance(action, argparse._SubParsersAction):
            what = str(action.metavar or "command").lower()
            meant = _meant(value, choices) or f": there are {named}"
            self.error(f"there is no {what} {value!r}{meant}")
        raise argparse.ArgumentError(action, f"{value!r} is none of {named}")

    def error(self, message: str) -> NoReturn:
        """Usage and one line."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message} ({self.prog} --help explains)\n")


def _meant(word: object, known: Iterable[str]) -> str:
    import difflib

    nearest = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return f": did you mean {nearest[0]}?" if nearest else ""
