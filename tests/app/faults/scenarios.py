"""What the killed app is asked to do, and what must be true of its output."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

INPUT: Final = "orders"
OUTPUT: Final = "invoices"
AUDIT: Final = "audit"
GROUP: Final = "billing"
DEAD_LETTERS: Final = f"{INPUT}.{GROUP}.dlt"
BLOCKED_KEY: Final = "table 0"
KEYS: Final = 40
PARTITIONS: Final = 4
# One in so many never succeeds.
POISON_EVERY: Final = 97
# Others fail by chance at all three attempts; more than this share means that something else is wrong.
MAX_UNLUCKY_SHARE: Final = 0.01

SESSION_TIMEOUT_MS: Final = 2_000
TRANSACTION_TIMEOUT_MS: Final = 5_000
COMMIT_INTERVAL_MS: Final = 200


@dataclass(frozen=True)
class Scenario:
    """One way to declare the listener."""

    name: str
    order: str = "partition"
    workers: int = 1
    delivery: str = "exactly-once"
    retries: bool = True
    keeps_order: bool = True
    is_batch: bool = False
    is_sync: bool = False
    max_metadata_bytes: int = 4096

    @property
    def is_exact(self) -> bool:
        return self.delivery == "exactly-once"

    @property
    def has_order_by_key(self) -> bool:
        """Whether outputs of a key come in the order of their inputs."""
        return self.is_exact and self.keeps_order and self.order != "none"


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("key-32", order="key", workers=32),
        Scenario("key-32-tight", order="key", workers=32, max_metadata_bytes=150),
        Scenario("partition"),
        Scenario("none-16", order="none", workers=16),
        Scenario("retry-topics", order="key", workers=8, keeps_order=False),
        Scenario("batch", is_batch=True),
        Scenario("threads", order="key", workers=8, is_sync=True),
        Scenario("at-least-once", order="key", workers=32, delivery="at-least-once"),
        Scenario("at-least-once-retry-topics", delivery="at-least-once", keeps_order=False),
    )
}


def inputs(count: int) -> list[dict[str, Any]]:
    """Orders with their place among those of their key."""
    seen: Counter[str] = Counter()
    found = []
    for number in range(count):
        key = f"table {number * 7 % KEYS}"
        kind = "poison" if number % POISON_EVERY == POISON_EVERY - 1 else "ok"
        found.append({"id": number, "key": key, "place": seen[key], "kind": kind})
        seen[key] += 1
    return found


@dataclass
class Outcome:
    """What read_committed consumers found, each topic partition after partition, in the order of the log."""

    output: Sequence[bytes]
    audit: Sequence[bytes]
    dead_letters: Sequence[bytes]


def problems(
    scenario: Scenario, orders: Sequence[dict[str, Any]], outcome: Outcome, *, times: int = 1
) -> list[str]:
    """What is wrong, a sentence each; `times` is how often every record was to be worked on."""
    output = _ids(outcome.output)
    letters = _ids(outcome.dead_letters)
    audit = _ids(outcome.audit)
    found = []
    for order in orders:
        number = order["id"]
        done, dead = output[number], letters[number]
        if order["kind"] == "poison" and (done or not dead):
            found.append(f"{number} is poison: {done} outputs, {dead} dead letters")
        if done + dead < times:
            found.append(f"{number} is lost: {done} outputs, {dead} dead letters")
        if not scenario.is_exact:
            continue
        if done + dead > times:
            found.append(f"{number} is duplicated: {done} outputs, {dead} dead letters")
        if audit[number] != done:
            found.append(f"{number} is torn: {done} outputs and {audit[number]} audit records")
    poison = sum(order["kind"] == "poison" for order in orders) * times
    unlucky = letters.total() - poison
    if scenario.is_exact and unlucky > MAX_UNLUCKY_SHARE * len(orders) * times:
        found.append(f"{unlucky} orders that are no poison have become dead letters")
    for topic, ids in (("output", output), ("dead letters", letters), ("audit", audit)):
        strange = set(ids) - {order["id"] for order in orders}
        if strange:
            found.append(f"{topic}: {sorted(strange)[:5]} were never sent")
    if scenario.has_order_by_key and times == 1:
        found += _out_of_order(outcome.output)
    return found


def _ids(values: Iterable[bytes]) -> Counter[int]:
    return Counter(json.loads(value)["id"] for value in values)


def _out_of_order(values: Iterable[bytes]) -> list[str]:
    places: dict[str, int] = defaultdict(lambda: -1)
    found = []
    for value in values:
        order = json.loads(value)
        if order["place"] < places[order["key"]]:
            found.append(
                f"{order['key']}: place {order['place']} comes behind {places[order['key']]}"
            )
        places[order["key"]] = order["place"]
    return found
