"""ssl.principal.mapping.rules: how the name in a certificate becomes the name of a user, in Kafka's grammar."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.errors import ConfigError

OPTION: Final = "ssl.principal.mapping.rules"
_RULE_TEXT: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE_TEXT})\s*(,\s*|$)")
_RULE: Final = re.compile(_RULE_TEXT)
_REPLACEMENT_PART: Final = re.compile(r"\\(.)|\$(\d+)|\$|\\|[^\\$]+", re.DOTALL)
_JAVA_GROUP_NAME: Final = re.compile(r"\(\?<(?![=!])")


class Rule(NamedTuple):
    """A pattern for whole names, and what the user's name is made of."""

    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """The user's name; None if the rule does not fit."""
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self._replaced, name)
        if self.case == "L":
            return mapped.lower()
        return mapped.upper() if self.case == "U" else mapped

    def _replaced(self, match: re.Match[str]) -> str:
        groups = self.pattern.groups
        parts = []
        for part in _REPLACEMENT_PART.finditer(self.replacement):
            escaped, digits = part.groups()
            if escaped is not None:
                parts.append(escaped)
            elif digits is None:
                parts.append(part[0])
            else:
                parts.append(_group_text(match, digits, groups))
        return "".join(parts)


def _group_text(match: re.Match[str], digits: str, groups: int) -> str:
    """The text of group $123, or of $12 followed by 3 if there are fewer groups; without any it stays as it is."""
    for length in range(len(digits), 0, -1):
        number = int(digits[:length])
        if number <= groups:
            return (match[number] or "") + digits[length:]
    return f"${digits}"


class PrincipalMapping:
    """The rules of a listener."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for rule in map(_parsed, _split(text)) if rule is not None]

    def name_of(self, distinguished_name: str) -> str | None:
        """The user's name by the first rule that fits; None if none does, which Kafka refuses."""
        for rule in self._rules:
            name = rule(distinguished_name)
            if name is not None:
                return name
        return None


def _split(text: str) -> list[str]:
    return [match[1] for match in _SPLITTER.finditer(text.strip())]


def _unchanged(name: str) -> str:
    return name


def _parsed(text: str) -> Callable[[str], str | None] | None:
    """What a rule does; None for an empty text."""
    if not text:
        return None
    match = _RULE.match(text)
    if match is None or match.end() != len(text):
        raise ConfigError(
            f"{OPTION}: {text!r} is no rule: write RULE:pattern/replacement/, with L or U at the end "
            "for lower or upper case, or DEFAULT"
        )
    if match[1] is not None:
        return _unchanged
    return _rule(match[2], match[4], match[6]).apply


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = re.compile(_JAVA_GROUP_NAME.sub("(?P<", pattern), re.ASCII)
    except re.error as error:
        raise ConfigError(f"{OPTION}: the pattern {pattern!r} is not valid: {error}") from error
    for part in _REPLACEMENT_PART.finditer(replacement):
        if part[0] in ("$", "\\") or (not compiled.groups and part[2] and int(part[2][0])):
            raise ConfigError(
                f"{OPTION}: the replacement {replacement!r} has {part[0]!r}, which the pattern "
                f"{pattern!r} has no group for: write \\{part[0]} if that is meant"
            )
    return Rule(compiled, replacement, case)
