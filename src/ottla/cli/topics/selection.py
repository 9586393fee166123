"""The topics and partitions that the arguments select."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cli.errors import CommandError, UsageError, attempt
from ottla.errors import ErrorCode, OttlaError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

# Commas outside [] and {}, which are parts of a pattern.
_COMMA: Final = re.compile(r",(?![^{\[]*[}\]])")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
# `*` and `?` of shell patterns, which a regular expression writes `.*` and `.`.
_WILD: Final = re.compile(r"(?<!\\)([A-Za-z0-9_-])([*?])")
_RULE: Final = re.compile(r"(?P<topic>[^:]*)(?::(?:(?P<number>\d+)|(?P<first>\d*)-(?P<end>\d*)|))?")


def choose_topics(words: Iterable[str], names: Collection[str]) -> tuple[list[str], list[str]]:
    """The sorted existing topics that names and patterns select, and the words that select none.

    A word that can be a name is one, so that `a.b` never matches `a-b`; others are regular expressions for whole names.
    """
    chosen: dict[str, None] = {}
    missing = []
    for word in split_words(words):
        found = [word] if word in names else matching(word, names)
        if not found:
            missing.append(word)
        chosen.update(dict.fromkeys(found))
    return sorted(chosen), missing


def split_words(words: Iterable[str]) -> list[str]:
    """The words, split at commas as in Kafka's tools."""
    return [part.strip() for word in words for part in _COMMA.split(word) if part.strip()]


def is_name(word: str) -> bool:
    """Whether the word is a valid topic name, not a pattern."""
    return _NAME.fullmatch(word) is not None


def matching(word: str, names: Collection[str]) -> list[str]:
    """The names that a pattern matches."""
    if is_name(word):
        return []
    try:
        pattern = re.compile(word)
    except re.error as error:
        raise UsageError(f"{word!r} is not a regular expression ({error})") from None
    return [name for name in names if pattern.fullmatch(name)]


def check_patterns(words: Iterable[str]) -> None:
    """Refuse shell patterns: as a regular expression, `orders-*` matches `orders` and not `orders-1`."""
    for word in split_words(words):
        if _WILD.search(word) is not None:
            meant = _WILD.sub(lambda found: found[1] + {"*": ".*", "?": "."}[found[2]], word)
            raise UsageError(
                f"{word!r} is a regular expression that repeats a single letter", f"write '{meant}'"
            )


def no_such_topics(admin: Admin, missing: Sequence[str]) -> OttlaError:
    """The error about words that select nothing; lists leave out topics that the user may not see."""
    named = [word for word in missing if is_name(word)]
    _, errors = attempt(named, lambda: admin.describe_topics(named))
    for error in errors.values():
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return error
    if len(missing) > 1:
        what = f"there are no topics {', '.join(missing)}"
    elif is_name(missing[0]):
        what = f"there is no topic {missing[0]}"
    else:
        what = f"no topic matches {missing[0]}"
    return CommandError(what, "`ottla topics list` shows which topics there are")


class PartitionRule(NamedTuple):
    """Partitions of the topics that a word selects, from the first to the end, which is exclusive."""

    topic: str
    first: int = 0
    end: int | None = None

    def has(self, number: int) -> bool:
        """Whether the rule selects the partition."""
        return self.first <= number and (self.end is None or number < self.end)


def partition_rules(text: str) -> list[PartitionRule]:
    """Parse TOPIC, TOPIC:NUMBER, TOPIC:FIRST-END, TOPIC:FIRST- and TOPIC:-END; without TOPIC, all topics."""
    rules = []
    for word in split_words([text]):
        found = _RULE.fullmatch(word)
        if found is None:
            raise UsageError(
                f"{word!r} is not a partition", "write TOPIC:NUMBER or TOPIC:FIRST-END"
            )
        topic = found["topic"] or ".*"
        if found["number"]:
            rules.append(PartitionRule(topic, int(found["number"]), int(found["number"]) + 1))
        else:
            end = found["end"]
            rules.append(PartitionRule(topic, int(found["first"] or 0), int(end) if end else None))
    return rules
