"""Subscriptions by pattern: whether a pattern is valid, and which topics it matches.

Compiling and matching takes too long for the event loop. A handler has a pattern checked on a thread before a
coordinator decides about it; the topics that match are found between requests, and the coordinator is told.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.broker.coordination.coordinator import Coordinator, When, unchanged
from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.requests.patterns import Pattern, PatternError
from ottla.core.catalog import Catalog
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import ResolvedPatterns, ResolvePatterns
from ottla.events import EventLog

logger = EventLog(__name__)

# The results of checks that are remembered.
CHECKED_PATTERNS: Final = 1000


class Search(NamedTuple):
    """The patterns of a group whose topics are to be found."""

    coordinator: Coordinator[GroupMachine]
    wanted: ResolvePatterns


class SubscriptionPatterns:
    """Checks patterns, and searches for topics one group after the other."""

    def __init__(self, catalog: Catalog, share: LoopShare) -> None:
        self._catalog = catalog
        self._share = share
        # The problem of each pattern, or None; the one that was used last is at the end.
        self._checked: OrderedDict[str, str | None] = OrderedDict()
        self._searches: asyncio.Queue[Search] = asyncio.Queue()

    # Validity.

    def is_checked(self, pattern: str) -> bool:
        return pattern in self._checked

    async def check(self, pattern: str) -> None:
        """Finds out whether a pattern is valid, so that `problem` knows it."""
        self._remember(pattern, await self._share.elsewhere(_problem, pattern))

    def problem(self, pattern: str) -> str | None:
        """What is wrong with a pattern; None if it is valid."""
        if pattern not in self._checked:
            # It was forgotten since it was checked.
            self._remember(pattern, _problem(pattern))
        self._checked.move_to_end(pattern)
        return self._checked[pattern]

    def _remember(self, pattern: str, problem: str | None) -> None:
        self._checked[pattern] = problem
        if len(self._checked) > CHECKED_PATTERNS:
            self._checked.popitem(last=False)

    # Topics.

    def search(self, coordinator: Coordinator[GroupMachine], wanted: ResolvePatterns) -> None:
        """Begins to search for the topics that match; the coordinator is told of them."""
        self._searches.put_nowait(Search(coordinator, wanted))

    async def run(self) -> None:
        """Does the searches, until it is cancelled."""
        while True:
            coordinator, wanted = await self._searches.get()
            if coordinator.is_gone:
                continue  # the next coordinator begins again
            found = None
            try:
                found = await self._find(wanted.patterns)
            except Exception as error:
                logger.bug("search_failed", "a search for topics failed: this is a bug", error)
            _tell(coordinator, wanted.group_id, found)

    async def _find(self, patterns: Iterable[str]) -> ResolvedPatterns:
        # Before the names: a topic that is created from now on asks for another search.
        version = self._catalog.topics_version
        names = list(self._catalog.topics)
        topics: dict[str, frozenset[str]] = {}
        for text in sorted(patterns):
            try:
                pattern = await self._share.elsewhere(Pattern, text)
            except PatternError as error:
                # It was checked when a member sent it, perhaps by an earlier version or by Kafka.
                logger.warning(
                    "pattern_not_valid",
                    "the pattern %(pattern)s of a subscription matches no topic: %(reason)s",
                    pattern=text,
                    reason=str(error),
                )
                topics[text] = frozenset()
                continue
            topics[text] = frozenset(await pattern.matching(names))
        return ResolvedPatterns(topics, version)


def _tell(
    coordinator: Coordinator[GroupMachine], group_id: str, found: ResolvedPatterns | None
) -> None:
    coordinator.ask(
        lambda groups, turn, _: groups.patterns_resolved(turn, group_id, found),
        unchanged,
        When.LOADED,
    )


def _problem(pattern: str) -> str | None:
    try:
        Pattern(pattern)
    except PatternError as error:
        return (
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: "
            f"{_in_kafkas_words(str(error))}."
        )
    return None


# What RE2 says, and what RE2/J says in Kafka.
_WORDS: Final = (
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("unexpected )", "regexp/syntax: internal error"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid named capture group", "invalid named capture"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("trailing \\", "trailing backslash at end of expression"),
)


def _in_kafkas_words(reason: str) -> str:
    for ours, kafkas in _WORDS:
        if reason.startswith(ours):
            return kafkas
    return reason
