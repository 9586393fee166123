"""The pipeline that `ottla demo` runs: it turns each order into a receipt."""

from __future__ import annotations

from typing import Final

from ottla.cli.demo.orders import ORDERS, PIPELINE, RECEIPTS
from ottla.spark.pipeline.formats import Json
from ottla.spark.pipeline.pipeline import Pipeline

# Small micro-batches, so that there are many transactions to watch.
BATCH_RECORDS: Final = "5000"

receipts = Pipeline(
    PIPELINE,
    source=ORDERS,
    sink=RECEIPTS,
    values=Json("id LONG, customer STRING, cups INT, price DOUBLE"),
    transform=lambda orders: orders.selectExpr(
        "key",
        "named_struct('id', value.id, 'customer', value.customer, 'total', value.cups * value.price) AS value",
    ),
    source_options={"maxOffsetsPerTrigger": BATCH_RECORDS},
    # A short run ends before Java's optimizing compiler pays off.
    settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
)
