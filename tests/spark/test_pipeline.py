"""What a Pipeline refuses, before Spark starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.spark.formats import Json
from ottla.spark.pipeline import Pipeline, subscription, trigger_ms

JSON = Json("id LONG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "two words"}, "no name of a pipeline"),
        ({"name": ""}, "no name of a pipeline"),
        ({"trigger": "continuous"}, "500 ms"),
        ({"trigger": "soon"}, "available-now"),
        ({"trigger": "5"}, "10 seconds"),
        ({"trigger": "5 moons"}, "10 seconds"),
        ({"engine": "fast"}, "standard or low-latency"),
        ({"dead_letter": "dead"}, "give values too"),
        ({"dead_letter": "out", "values": JSON}, "same topic"),
        ({"source": lambda spark: spark, "values": JSON}, "source is a function"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pipeline(**{"name": "fraud", "source": "in", "sink": "out", **options})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0 seconds", 0),
        ("500 ms", 500),
        ("10s", 10_000),
        ("2 minutes", 120_000),
        ("1 h", 3_600_000),
    ],
)
def test_triggers_are_times_with_a_unit(text: str, milliseconds: int) -> None:
    assert trigger_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("orders", {"subscribe": "orders"}),
        (["orders", "returns"], {"subscribe": "orders,returns"}),
        (re.compile("orders-.*"), {"subscribePattern": "orders-.*"}),
    ],
)
def test_topics_are_named_alone_together_or_by_a_pattern(source: Any, options: Any) -> None:
    assert subscription(source) == options


@pytest.mark.parametrize("source", [[], "", [" "]])
def test_a_source_without_topics_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match="no topic"):
        subscription(source)


def test_a_cluster_needs_a_checkpoint_that_all_machines_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Pipeline("fraud", source="in", sink="out")
    here = str(tmp_path / "ottla-checkpoints" / "fraud")
    assert made.checkpoint_location("local[2]") == here
    assert made.checkpoint_location("local-cluster[2,1,1024]") == here
    with pytest.raises(ConfigError, match="checkpoint is missing"):
        made.checkpoint_location("spark://host:7077")


@pytest.mark.parametrize(
    ("given", "environment", "servers"),
    [(None, None, "127.0.0.1:9092"), (None, "a:1", "a:1"), ("b:2", "a:1", "b:2")],
)
def test_where_the_broker_is(
    monkeypatch: pytest.MonkeyPatch, given: str | None, environment: str | None, servers: str
) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    if environment is not None:
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", environment)
    assert Pipeline("x", source="a", sink="b", bootstrap_servers=given).servers == servers


def test_secrets_are_not_shown() -> None:
    pipeline = Pipeline(
        "fraud",
        "payments",
        "alerts",
        kafka={"sasl.password": "secret"},
        sink_options={"a": "secret"},
    )
    assert "secret" not in repr(pipeline)


def test_a_mode_that_spark_does_not_offer_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="watermark"):
        Pipeline("fraud", "payments", "alerts", output_mode="update")


def test_a_transform_that_returns_nothing_is_told() -> None:
    pipeline = Pipeline("fraud", "payments", "alerts", transform=lambda rows: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="is a return missing"):
        pipeline._written(None)  # type: ignore[arg-type]
