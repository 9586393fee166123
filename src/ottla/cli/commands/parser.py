"""Arguments as argparse reads them, with errors that say what was meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from ottla.cli.exit_codes import USAGE

# What every verb has, about the connection.
_BEHIND_VERBS: Final = (
    *("-b", "--bootstrap-server", "--command-config", "-X", "--timeout", "-v", "--verbose"),
)


_Name = tuple[argparse.Action, Any, Any]


class Parser(argparse.ArgumentParser):
    """The parser of the command, of its commands and of their verbs.

    Options and names come in any order: argparse itself gives all names that a list may have to the first that come
    together, so that `produce TOPIC -l FILE` fails.
    """

    instead: Mapping[str, str] = {}
    """What to write in place of options that people try first."""

    _is_parsing = False
    _names: Sequence[_Name] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses what it does not know at once: a verb knows its flags better than the command above it."""
        if self._is_parsing:  # argparse itself, which takes the options out first
            return super().parse_known_args(args, namespace)
        if args is not None:
            self._check_begin(list(args))
        if self._has_list():
            self._is_parsing = True
            self._names = [
                (each, each.nargs, each.default) for each in self._get_positional_actions()
            ]
            try:
                found, unknown = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._is_parsing = False
        else:
            found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return found, unknown

    def format_help(self) -> str:
        """The help, with all names: argparse hides them while it looks for options, of which help is one."""
        if not self._is_parsing:
            return super().format_help()
        hidden = [(each, each.nargs, each.default) for each in self._get_positional_actions()]
        try:
            _set_back(self._names)
            return super().format_help()
        finally:
            _set_back(hidden)

    def _check_begin(self, given: list[str]) -> None:
        """Before a verb nothing is understood but help: says where the rest belongs."""
        verbs = self._verbs()
        if verbs is None or not verbs.choices:
            return
        if not given:
            if verbs.required:
                self.error(f"what shall it do? there are {', '.join(verbs.choices)}")
            return
        flag = given[0].partition("=")[0]
        known = self._option_string_actions
        if not flag.startswith("-") or any(each.startswith(flag) for each in known):
            return
        words = [word.lstrip("-") for word in given]
        named = next((word for word in words if word in verbs.choices), None)
        if flag in _BEHIND_VERBS or flag[:2] in _BEHIND_VERBS:
            line = f"{self.prog} {named or 'VERB'}"
            inner = None if named is None else verbs.choices.get(named)
            if isinstance(inner, Parser) and (inner_verbs := inner._verbs()) is not None:
                behind = words[words.index(named) + 1 :] if named else []
                line += f" {next((each for each in behind if each in inner_verbs.choices), 'VERB')}"
            self.error(f"{flag} belongs behind the verb: {line} {flag} …")
        if named is not None and named not in given:
            self.error(f"write `{self.prog} {named}`, without dashes")

    def _verbs(self) -> argparse._SubParsersAction[argparse.ArgumentParser] | None:
        for action in self._get_positional_actions():
            if isinstance(action, argparse._SubParsersAction):
                return action
        return None

    def _has_list(self) -> bool:
        if self._verbs() is not None:
            return False
        return any(action.nargs in ("*", "+", "?") for action in self._get_positional_actions())

    def _unknown(self, unknown: list[str]) -> str:
        flags = [word for word in unknown if word.startswith("-") and word != "-"]
        if not flags:
            return f"{' '.join(unknown)!r} is more than this command takes"
        flag = flags[0].partition("=")[0]
        if flag in self.instead:
            return f"there is no {flag} here: write {self.instead[flag]}"
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


def _set_back(names: Iterable[_Name]) -> None:
    for action, nargs, default in names:
        action.nargs, action.default = nargs, default


def _meant(word: object, known: Iterable[str]) -> str:
    import difflib

    known = list(known)
    longer = [each for each in known if each.startswith(f"{word}-")]
    if len(longer) == 1:
        return f": did you mean {longer[0]}?"
    nearest = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    return f": did you mean {nearest[0]}?" if nearest else ""
