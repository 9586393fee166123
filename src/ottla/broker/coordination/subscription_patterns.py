"""Subscriptions by pattern: whether a pattern is valid, and which topics it matches.

Compiling and matching takes too long for the event loop. A handler has a pattern checked on a thread before a
coordinator decides about it; the topics that match are found between requests, and the coordinator is told.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
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
NAMES_PER_STEP: Final = 64


class Names(NamedTuple):
    """The names of all topics, in one order."""

    version: int
    names: list[str]


class Search:
    """The patterns of a group whose topics are to be found, and what was found so far."""

    def __init__(self, coordinator: Coordinator[GroupMachine], wanted: ResolvePatterns) -> None:
        self.coordinator = coordinator
        self.group_id = wanted.group_id
        self.caller = wanted.caller
        self.left = sorted(wanted.patterns, reverse=True)
        # From its first turn on.
        self.searched: Names | None = None
        # The names that the current pattern was compared with, and those of them that match.
        self.position = 0
        self.matching: list[str] = []
        self.topics: dict[str, frozenset[str]] = {}

    def end_pattern(self, pattern: str) -> None:
        self.left.remove(pattern)
        self.topics[pattern] = frozenset(self.matching)
        self.position, self.matching = 0, []


class SubscriptionPatterns:
    """Checks patterns, and searches for topics: the groups take turns, so that none waits for another's patterns."""

    def __init__(
        self,
        catalog: Catalog,
        share: LoopShare,
        may_describe: Callable[[object, str], bool] = lambda caller, topic: True,
    ) -> None:
        """`may_describe` says whether a caller may know of a topic."""
        self._catalog = catalog
        self._share = share
        self._may_describe = may_describe
        # The problem of each pattern, or None; the one that was used last is at the end.
        self._checked: OrderedDict[str, str | None] = OrderedDict()
        self._searches: asyncio.Queue[Search] = asyncio.Queue()
        self._names = Names(-1, [])

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
            search = await self._searches.get()
            if search.coordinator.is_gone:
                continue  # the next coordinator begins again
            found = None
            try:
                found = await self._go_on(search)
                if found is None:
                    self._searches.put_nowait(search)  # behind the others
                    continue
            except Exception as error:
                logger.bug("search_failed", "a search for topics failed: this is a bug", error)
            _tell(search.coordinator, search.group_id, found)

    async def _go_on(self, search: Search) -> ResolvedPatterns | None:
        """One turn of a search; None if it is not over."""
        if search.searched is None:
            search.searched = self._all_names()
        version, names = search.searched
        if search.left:
            text = search.left[-1]
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
                search.position = len(names)
            else:
                some = _some(names, search.position, pattern.chars_at_a_time)
                matching = await pattern.matching(some)
                search.matching += await self._share.run(self._describable(search.caller, matching))
                search.position += len(some)
            if search.position >= len(names):
                search.end_pattern(text)
        return None if search.left else ResolvedPatterns(search.topics, version)

    def _describable(
        self, caller: object, names: Iterable[str]
    ) -> Generator[None, None, list[str]]:
        """The names that the caller may know."""
        found = []
        for number, name in enumerate(names):
            if not number % NAMES_PER_STEP:
                yield
            if self._may_describe(caller, name):
                found.append(name)
        return found

    def _all_names(self) -> Names:
        """The names of now; a topic that is created from now on asks for another search."""
        version = self._catalog.topics_version
        if self._names.version != version:
            self._names = Names(version, list(self._catalog.topics))
        return self._names


def _some(names: list[str], start: int, most_chars: int) -> list[str]:
    """One of the names from a place on, and more while they have no more than so many characters."""
    end, chars = start, 0
    while end < len(names) and (end == start or chars < most_chars):
        chars += len(names[end])
        end += 1
    return names[start:end]


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
