"""What the page shows of the shop: the address of each view and of each of its states that matter."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

from tests.console.shop.names import (
    BILLING,
    CHECKOUT,
    CLIMATE,
    CUSTOMERS,
    DEAD_LETTERS,
    MODERATION,
    ORDERS,
    PAYMENTS,
    PIPELINE,
    RATINGS,
    REFUNDS,
    SEARCH_INDEX,
    SHIPMENTS,
    STOCK,
    WAREHOUSE,
)


class State(NamedTuple):
    """A state of the page; its name is that of its pictures."""

    name: str
    path: str


VIEWS: Final = (
    State("overview", "/"),
    State("topics", "/topics"),
    State("topic", f"/topics/{ORDERS}"),
    State("records", f"/topics/{ORDERS}/records"),
    State("schemas", "/schemas"),
    State("groups", "/groups"),
    State("group", f"/groups/{SEARCH_INDEX}"),
    State("transactions", "/transactions"),
    State("transaction", f"/transactions/{REFUNDS}"),
    State("producers", "/producers"),
    State("apps", "/apps"),
    State("pipelines", "/pipelines"),
    State("pipeline", f"/pipelines/{PIPELINE}"),
    State("broker", "/broker"),
    State("json-api", "/json-api?open=post_topics"),
)
"""Each view once, with something to show."""

MORE: Final = (
    State("topic-held-up", f"/topics/{RATINGS}"),
    State("topic-compacted", f"/topics/{CUSTOMERS}"),
    State("records-avro", f"/topics/{PAYMENTS}/records"),
    State("records-protobuf", f"/topics/{SHIPMENTS}/records"),
    State("records-json-schema", f"/topics/{STOCK}/records"),
    State("records-arrow", f"/topics/{CLIMATE}/records"),
    State("records-dead-letters", f"/topics/{quote(DEAD_LETTERS)}/records"),
    State("records-offsets", "/topics/__consumer_offsets/records"),
    State("records-transactions", "/topics/__transaction_state/records"),
    State("group-classic", f"/groups/{BILLING}"),
    State("group-consumer", f"/groups/{WAREHOUSE}"),
    State("group-held-up", f"/groups/{MODERATION}"),
    State("letters", f"/apps/dead-letters/{quote(DEAD_LETTERS)}"),
    State("letter", f"/apps/dead-letters/{quote(DEAD_LETTERS)}/0/0"),
    State("letters-done", f"/apps/dead-letters/{quote(DEAD_LETTERS)}?state=done"),
    State("subject", f"/schemas/subjects/{PAYMENTS}-value"),
    State("subject-difference", f"/schemas/subjects/{PAYMENTS}-value?tab=difference"),
    State("subject-protobuf", f"/schemas/subjects/{SHIPMENTS}-value"),
    State("schema-id", "/schemas/ids/2"),
    State("no-letter", f"/apps/dead-letters/{quote(DEAD_LETTERS)}/0/999999"),
    State("no-subject", "/schemas/subjects/there-is-none"),
    State("transactions-ended", "/transactions?tab=ended"),
    State("transactions-ids", "/transactions?tab=ids"),
    State("transaction-committing", f"/transactions/{CHECKOUT}"),
    State("no-topic", "/topics/there-is-none"),
    State("no-group", "/groups/there-is-none"),
    State("no-transaction", "/transactions/there-is-none"),
    State("no-pipeline", "/pipelines/there-is-none"),
    State("no-view", "/nowhere/at/all"),
)

NOTHING_THERE: Final = tuple(state.name for state in MORE if state.name.startswith("no-"))
"""States of what does not exist: the API answers 404."""
