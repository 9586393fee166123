"""What the workers in Python share: options, events as lines of JSON, the end of the input as the order to leave."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

POLL_SECONDS = 0.1
# How many records are processed before they are committed.
BATCH_RECORDS = 20

Place = tuple[str, int]

MEMBERSHIP_ERRORS = {
    *("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
    *("CommitFailedError", "UnknownMemberIdError", "IllegalGenerationError"),
}
# Another process has this one's group.instance.id.
FENCED_ERRORS = {"FENCED_INSTANCE_ID", "_FENCED", "FencedInstanceIdError"}


class Identity(NamedTuple):
    """What the client says it is in the group."""

    generation: int
    member_id: str


class Reporter:
    """Speaks with the test that started this process."""

    def __init__(self) -> None:
        self.options = dict(argument.split("=", 1) for argument in sys.argv[1:])
        self.owned: set[Place] = set()
        # Processed and not committed yet: the next offset of each partition.
        self.pending: dict[Place, int] = {}
        self._leave = threading.Event()
        threading.Thread(target=self._watch_input, daemon=True).start()

    def _watch_input(self) -> None:
        while os.read(0, 1024):
            pass
        self._leave.set()

    @property
    def is_leaving(self) -> bool:
        return self._leave.is_set()

    @property
    def topics(self) -> list[str]:
        return [topic for topic in self.options.get("topics", "").split(",") if topic]

    @property
    def commit_delay_seconds(self) -> float:
        """How long it takes from processing to committing, if there is something to commit."""
        return int(self.options.get("commit.delay.ms", "0")) / 1000 if self.pending else 0.0

    def number(self, name: str) -> int:
        return int(self.options[name])

    def _say(self, kind: str, places: Iterable[Place], who: Identity, **more: object) -> None:
        event = {
            "time": time.monotonic(),
            "kind": kind,
            "partitions": sorted(places),
            "generation": who.generation,
            "member_id": who.member_id,
            "instance_id": self.options.get("group.instance.id", ""),
            **more,
        }
        # One write, so that a kill leaves whole lines behind.
        os.write(1, json.dumps(event).encode() + b"\n")

    def assigned(self, places: Iterable[Place], who: Identity) -> None:
        new = set(places)
        self.owned |= new
        self._say("assigned", new, who)

    def revoked(self, places: Iterable[Place], who: Identity) -> None:
        """Says nothing of what was told before: some clients tell again when they close."""
        gone = self.owned.intersection(places)
        self.owned -= gone
        if gone:
            self._say("revoked", gone, who)

    def lost(self, places: Iterable[Place], who: Identity) -> None:
        gone = self.owned.intersection(places)
        self.owned -= gone
        for place in gone:
            self.pending.pop(place, None)
        if gone:
            self._say("lost", gone, who)

    def record(self, place: Place, offset: int, value: bytes, who: Identity) -> None:
        self._say("record", [place], who, offset=offset, value=value.decode())
        self.pending[place] = offset + 1

    def committed(self, offsets: Mapping[Place, int], who: Identity, began: float) -> None:
        places = sorted(offsets)
        self._say("committed", places, who, offsets=[offsets[one] for one in places], began=began)
        for place, offset in offsets.items():
            if self.pending.get(place) == offset:
                del self.pending[place]

    def commit_failed(
        self, offsets: Mapping[Place, int], who: Identity, began: float, error: str, now: Identity
    ) -> None:
        places = sorted(offsets)
        values = [offsets[one] for one in places]
        self._say("commit-failed", places, who, offsets=values, began=began, error=error)
        # A cooperative member processes and commits during a rebalance, and the commit may meet the
        # end of the join: it is still a member then. It tries again, as it does when the
        # coordinator moved. Who is no member cannot.
        if error in FENCED_ERRORS:
            raise SystemExit(error)
        is_member = now.member_id == who.member_id and now.generation > who.generation
        if error in MEMBERSHIP_ERRORS and not is_member:
            self.pending.clear()

    def left(self) -> None:
        self._say("left", (), Identity(-1, ""))
