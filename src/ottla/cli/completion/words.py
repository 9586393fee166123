"""What can come next on a command line, as the parser of the arguments knows it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

FILES: Final = "FILE"
# What stands for a value in help says what it is; the names of these a broker knows.
_KINDS: Final = {
    "FILE": FILES,
    "FILE_OR_MODULE": FILES,
    "DIR": FILES,
    "TOPIC": "TOPIC",
    "GROUP": "GROUP",
}
_KINDS_BY_NAME: Final = dict.fromkeys(("transactional_id", "transactional_ids"), "TRANSACTIONAL-ID")
_MANY: Final = ("*", "+", argparse.REMAINDER)


class Candidate(NamedTuple):
    """A word that could come next, and what it means."""

    word: str
    meaning: str = ""


class Completion(NamedTuple):
    """Words that could come next, or the kind of thing that could; and what the line said before."""

    candidates: Sequence[Candidate] = ()
    kind: str | None = None
    prefix: str = ""
    given: Sequence[tuple[str, str]] = ()

    def connection(self, timeout_seconds: float) -> argparse.Namespace:
        """Where the cluster is, as far as the line said it."""
        last = dict(self.given)
        return argparse.Namespace(
            bootstrap_server=last.get("bootstrap_server"),
            command_config=last.get("command_config"),
            client_options=[value for name, value in self.given if name == "client_options"],
            timeout=timeout_seconds,
            verbose=False,
        )


class _Reader:
    """Follows the words of a line through the parsers."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        self.positionals = [*_positionals(parser)]
        self.awaited: argparse.Action | None = None
        self.given: list[tuple[str, str]] = []
        self._flags_are_over = False

    def take(self, word: str) -> bool:
        """Goes on behind a word; False if the line makes no sense there."""
        if self.awaited is not None:
            self.given.append((self.awaited.dest, word))
            self.awaited = None
        elif self.is_flag(word):
            self._take_flag(word)
        elif not self.positionals:
            return False
        else:
            return self._take_positional(word)
        return True

    def is_flag(self, word: str) -> bool:
        return word.startswith("-") and not self._flags_are_over

    def option(self, flag: str) -> argparse.Action | None:
        return self.parser._option_string_actions.get(flag)

    def _take_flag(self, word: str) -> None:
        if word == "--":
            self._flags_are_over = True
            return
        flag, separator, value = word.partition("=")
        action = self.option(flag)
        if action is None:
            # A short one with its value: -ojson.
            action, separator, value = self.option(word[:2]), "=", word[2:]
        if action is None:
            return
        if separator:
            self.given.append((action.dest, value))
        elif action.nargs is None:
            self.awaited = action

    def _take_positional(self, word: str) -> bool:
        action = self.positionals[0]
        if isinstance(action, argparse._SubParsersAction):
            parser = action.choices.get(word)
            if parser is None:
                return False
            self.parser, self.positionals = parser, [*_positionals(parser)]
        elif action.nargs not in _MANY:
            self.positionals.pop(0)
        return True


def complete(top: argparse.ArgumentParser, words: Sequence[str]) -> Completion:
    """What could stand in the place of the last word, after all those before it."""
    *before, current = words
    reader = _Reader(top)
    if not all(reader.take(word) for word in before):
        return Completion()
    if reader.awaited is not None:
        return _value(reader.awaited, reader.given, "")
    if reader.is_flag(current):
        flag, separator, _ = current.partition("=")
        action = reader.option(flag)
        if separator and action is not None:
            return _value(action, reader.given, flag + "=")
        return Completion([*_flags(reader.parser)])
    if reader.positionals:
        return _value(reader.positionals[0], reader.given, "")
    return Completion()


def _value(action: argparse.Action, given: Sequence[tuple[str, str]], prefix: str) -> Completion:
    if isinstance(action, argparse._SubParsersAction):
        return Completion(
            [
                Candidate(str(each.metavar or each.dest), meaning(each))
                for each in action._choices_actions
            ]
        )
    metavar = str(action.metavar)
    choices = metavar.split("|") if "|" in metavar else action.choices
    if choices is not None:
        return Completion([Candidate(f"{prefix}{choice}") for choice in choices])
    kind = _KINDS.get(metavar) or _KINDS_BY_NAME.get(action.dest)
    return Completion((), kind, prefix, given)


def _positionals(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if not action.option_strings and action.help is not argparse.SUPPRESS:
            yield action


def _flags(parser: argparse.ArgumentParser) -> Iterator[Candidate]:
    for action in parser._actions:
        if action.help is not argparse.SUPPRESS:
            for flag in action.option_strings:
                yield Candidate(flag, meaning(action))


def meaning(action: Any) -> str:
    """The first clause of a help text."""
    text = " ".join((action.help or "").split(";")[0].split())
    return "" if "%(" in text else text
