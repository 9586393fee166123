"""Topics, groups and transactional ids of the shop, as tests and the guide name them."""

from __future__ import annotations

from typing import Final

from ottla.admin import NewTopic

ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
INVOICES: Final = "invoices"
SHIPMENTS: Final = "shipments"
STOCK: Final = "stock"
CUSTOMERS: Final = "customers"
PAGE_VIEWS: Final = "page-views"
RATINGS: Final = "ratings"
CLIMATE: Final = "climate"
"""Its values are Arrow IPC streams."""
REVENUE: Final = "revenue"

BILLING: Final = "billing"
"""Classic protocol, three members, keeps up."""
WAREHOUSE: Final = "warehouse"
"""The new protocol (KIP-848), two members."""
ANALYTICS: Final = "analytics"
"""Reads more slowly than is written."""
NIGHTLY_REPORT: Final = "nightly-report"
"""Has no member now, and a lag."""
SEARCH_INDEX: Final = "search-index"
"""A second member comes and goes."""
MODERATION: Final = "moderation"
"""Reads committed records, and is held up by a transaction."""
ACCOUNTING: Final = "accounting"
"""Reads committed payments, and waits for a transaction that is open."""
MAILER: Final = "mailer"
"""An app, with retries and dead letters."""
PIPELINE: Final = "daily-revenue"
"""Commits as a pipeline of Spark does."""

CHECKOUT: Final = "checkout-1"
"""Commits a transaction of payments and invoices each second."""
IMPORT: Final = "import-ratings"
"""Aborts every transaction."""
REFUNDS: Final = "refunds"
"""Hangs: its transaction stays open for as long as the broker allows."""

DEAD_LETTERS: Final = f"{ORDERS}.{MAILER}.dlt"

TOPICS: Final = (
    NewTopic(ORDERS, num_partitions=6),
    NewTopic(PAYMENTS, num_partitions=3),
    NewTopic(INVOICES, num_partitions=3),
    NewTopic(SHIPMENTS, num_partitions=3),
    NewTopic(STOCK, num_partitions=2, configs={"cleanup.policy": "compact"}),
    NewTopic(CUSTOMERS, num_partitions=3, configs={"cleanup.policy": "compact"}),
    NewTopic(PAGE_VIEWS, num_partitions=4, configs={"retention.ms": str(7 * 24 * 3_600_000)}),
    NewTopic(RATINGS, num_partitions=1),
    NewTopic(CLIMATE, num_partitions=1, configs={"retention.ms": str(24 * 3_600_000)}),
    NewTopic(REVENUE, num_partitions=2),
)
