"""What a Pipeline refuses, before Spark starts."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import ottla
from ottla import Broker
from ottla.errors import ConfigError
from ottla.spark.pipeline import preflight
from ottla.spark.pipeline.failure_policy import PipelineError
from ottla.spark.pipeline.formats import Json
from ottla.spark.pipeline.output_rows import _transformed
from ottla.spark.pipeline.pipeline import Pipeline, trigger_ms
from ottla.spark.pipeline.query_options import (
    checkpoint_location,
    sink_options,
    source_options,
    subscription,
)
from ottla.spark.pipeline.run_overrides import Run
from ottla.spark.sink.sink_options import stream_settings
from ottla.spark.sink.target_topics import planned_partition_counts
from ottla.spark.source.source_options import read_stream_options

JSON = Json("id LONG")
SASL = {
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "me",
    "kafka.sasl.password": "secret",
}
TASKS = ("minpartitions", "recordsperpartition")


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
        ({"kafka": {"group.id": "mine"}}, "leave group.id out"),
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


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, ["true"]),
        ({"source_options": {"includeheaders": False}}, ["false"]),
        # Dead letters have headers, whatever becomes of those of the others.
        (
            {
                "source_options": {"IncludeHeaders": False},
                "dead_letter": "dead",
                "values": JSON,
            },
            ["true"],
        ),
    ],
)
def test_headers_are_read_unless_the_user_wants_none(given: Any, read: list[str]) -> None:
    found = source_options(Pipeline("fraud", source="in", sink="out", **given), "in")
    assert [value for name, value in found.items() if name.lower() == "includeheaders"] == read


@pytest.mark.parametrize("source", [[], "", [" "]])
def test_a_source_without_topics_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match="no topic"):
        subscription(source)


@pytest.mark.parametrize(
    ("engine", "given", "expected"),
    [
        ("standard", {}, {}),
        ("low-latency", {}, {"minRecordsPerPartition": "1000"}),
        ("low-latency", {"startingOffsets": "latest"}, {"minRecordsPerPartition": "1000"}),
        *(
            ("low-latency", {name: "7"}, {name: "7"})
            for name in ("minrecordsperpartition", "minPartitions", "maxRecordsPerPartition")
        ),
    ],
)
def test_small_micro_batches_are_read_in_one_task_by_the_low_latency_engine(
    engine: str, given: dict[str, str], expected: dict[str, str]
) -> None:
    made = Pipeline("fraud", source="in", sink="out", engine=engine, source_options=given)
    found = source_options(made, "in")
    assert {name: found[name] for name in found if name.lower().endswith(TASKS)} == expected
    assert read_stream_options(found).subscription.topics == ("in",)


def test_a_cluster_needs_a_checkpoint_that_all_machines_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Pipeline("fraud", source="in", sink="out")
    here = str(tmp_path / "ottla-checkpoints" / "fraud")
    assert checkpoint_location(made, "local[2]") == here
    assert checkpoint_location(made, "local-cluster[2,1,1024]") == here
    with pytest.raises(ConfigError, match="checkpoint is missing"):
        checkpoint_location(made, "spark://host:7077")


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


def test_the_dead_letters_count_of_partitions_is_pinned_too() -> None:
    made = Pipeline("fraud", "payments", "alerts", values=JSON, dead_letter="dead")
    assert sink_options(made, "local[2]")["pinnedTopics"] == "dead"
    more = Pipeline(
        *("fraud", "payments", "alerts"),
        values=JSON,
        dead_letter="dead",
        sink_options={"pinnedtopics": "a,b"},
    )
    assert sink_options(more, "local[2]")["pinnedtopics"] == "a,b,dead"
    chosen = Pipeline("fraud", "payments", "alerts", sink_options={"markertopic": "kept"})
    written = sink_options(chosen, "local[2]")
    assert written.keys() & {"pinnedTopics", "markerTopic", "markertopic"} == {"markertopic"}


def test_a_mode_that_spark_does_not_offer_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="watermark"):
        Pipeline("fraud", "payments", "alerts", output_mode="update")


@pytest.mark.parametrize("is_told", [True, False])
def test_what_fails_because_a_signal_ended_java_too_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    """A signal for all processes of the group, while Spark starts."""

    def start(*words: Any, **options: Any) -> None:
        if is_told:
            signal.raise_signal(signal.SIGINT)
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited")

    monkeypatch.setattr("ottla.spark.pipeline.pipeline.start_session", start)
    monkeypatch.setattr("ottla.spark.pipeline.pipeline.require_java", lambda: None)
    # Nothing is asked: some broker may listen on the default port.
    for check in ("reach", "check_topics"):
        monkeypatch.setattr(f"ottla.spark.pipeline.preflight.{check}", lambda *_: None)
    with pytest.raises(KeyboardInterrupt if is_told else RuntimeError):
        Pipeline("fraud", "payments", "alerts").run()


class SparkStartedError(Exception):
    """Nothing was wrong before Spark starts."""


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*words: Any, **options: Any) -> None:
        raise SparkStartedError

    monkeypatch.setattr("ottla.spark.pipeline.pipeline.require_java", lambda: None)
    monkeypatch.setattr("ottla.spark.pipeline.pipeline.start_session", start)
    # Other tests of the same process may have left a session, which is a reason not to look for Spark Connect.
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source_options": {"startingOffset": "latest"}}, "did you mean startingOffsets"),
        ({"source_options": {"maxOffsetsPerTrigger": "many"}}, "maxOffsetsPerTrigger='many'"),
        ({"source_options": {"kafka.group.instance.id": "a"}}, "the source is in no group"),
        ({"sink_options": {"delivery": "twice"}}, "delivery='twice'"),
        ({"sink_options": {"kafka.linger.ms": "5"}}, "do not linger"),
        ({"sink_options": {"delivery": "at-least-once"}, "engine": "low-latency"}, "exactly-once,"),
        ({"sink_options": {"topic": None}}, "topic is None"),
        ({"kafka": {"compression.typ": "zstd"}}, r"did you mean compression\.type\?"),
        ({"kafka": {"isolation.levl": "x"}}, r"did you mean isolation\.level\?"),
        ({"kafka": {"nothing": "x"}}, "'nothing' is not a consumer option"),
        ({"kafka": {"linger.ms": "5"}}, "do not linger"),
        ({"kafka": {"auto.offset.reset": "latest"}}, "use startingOffsets"),
        ({"kafka": {"isolation.level": "read_all"}}, "isolation.level"),
        ({"source": lambda spark: spark, "kafka": {"isolation.level": "x"}}, "isolation.level"),
        ({"checkpoint": None, "settings": {"spark.master": "spark://a:7077"}}, "checkpoint is"),
        ({"source_options": {"pipeline": "other"}}, "source has pipeline='other', and the sink"),
        ({"sink_options": {"pipeline": "other"}}, "sink has pipeline='other': give both the same"),
        ({"settings": {"spark.remote": "sc://a:15002"}}, r"spark\.remote means Spark Connect"),
        ({"settings": {"spark.api.mode": "connect"}}, "API mode connect means Spark Connect"),
    ],
)
def test_wrong_options_are_told_before_spark_starts(options: dict[str, Any], words: str) -> None:
    pipeline = Pipeline(**{"name": "fraud", "source": "in", "sink": "out", **options})
    with pytest.raises(ConfigError, match=words):
        pipeline.run()


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_spark_connect_is_refused_before_anything_is_asked_of_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "sc://127.0.0.1:1")
    with pytest.raises(ConfigError, match="Spark Connect"):
        Pipeline("fraud", "in", "out").run()
    # Whoever has a session of it, of whatever kind.
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigError, match="the session that was given means Spark Connect"):
        Pipeline("fraud", "in", "out").start(session)


@pytest.mark.usefixtures("without_spark")
def test_topics_that_do_not_exist_are_missed_before_spark_starts(
    ottla_broker: Broker, tmp_path: Path
) -> None:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        servers = broker.bootstrap_servers
        made = Pipeline(
            *("fraud", "in", "out"),
            values=JSON,
            dead_letter="dead",
            bootstrap_servers=servers,
            checkpoint=str(tmp_path),
        )
        began = time.monotonic()
        with pytest.raises(ConfigError, match="has no topic dead, out to write to"):
            made.run()
        settings = stream_settings(sink_options(made, "local[2]"))
        with pytest.raises(ConfigError, match="has no topic out to write to"):
            planned_partition_counts(settings)
        assert time.monotonic() - began < 30, "far below max.block.ms"
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([ottla.admin.NewTopic(name, 1) for name in ("out", "dead")])
        with pytest.raises(ConfigError, match="has no topic in: create it"):
            made.run()
        # The query of a checkpoint says itself what it lost.
        (tmp_path / "offsets").mkdir()
        (tmp_path / "offsets" / "0").write_text("v1")
        with pytest.raises(SparkStartedError):
            made.run()
        assert planned_partition_counts(settings) == {"out": 1, "dead": 1}
    creating = ottla_broker.bootstrap_servers
    with ottla.Admin(bootstrap_servers=creating) as admin:
        admin.create_topics([ottla.admin.NewTopic("fraud-in", 1)])
    for source in ("fraud-in", re.compile("none-.*"), lambda spark: spark):
        with pytest.raises(SparkStartedError):
            Pipeline("fraud", source, "fraud-out", bootstrap_servers=creating).run()


def test_options_may_be_numbers_and_truths() -> None:
    pipeline = Pipeline(
        *("fraud", "in", "out"),
        kafka={"max.block.ms": 500},
        source_options={"failOnDataLoss": False, "maxOffsetsPerTrigger": 7},
        sink_options={"commitSourceOffsets": False},
    )
    read = read_stream_options(source_options(pipeline, "in"))
    assert (read.fail_on_data_loss, read.max_offsets) == (False, 7)
    written = stream_settings(sink_options(pipeline, "local[2]"))
    assert (written.commits_source_offsets, written.config.max_block_ms) == (False, 500)


def test_whoever_needs_another_way_to_the_same_broker_is_asked_too() -> None:
    def clusters(**options: Any) -> list[preflight.ClusterToReach]:
        made = Pipeline("fraud", "in", "out", **options)
        return preflight.check_options(made, "local[2]")

    assert len(clusters()) == 1
    found = clusters(
        sink_options={"kafka.security.protocol": "SASL_PLAINTEXT", **SASL},
        source_options={"kafka.default.api.timeout.ms": "5000"},
    )
    assert [each.patience_ms for each in found] == [5000, 60000]
    assert "secret" not in repr(found)


def test_an_option_goes_to_the_client_that_has_it() -> None:
    kafka = {"isolation.level": "read_uncommitted", "compression.type": "zstd", "client.id": "me"}
    pipeline = Pipeline("fraud", source="in", sink="out", kafka=kafka)
    read = read_stream_options(source_options(pipeline, "in"))
    written = stream_settings(sink_options(pipeline, "local[2]"))
    assert read.isolation_level == "read_uncommitted"
    assert written.config.compression_type == "zstd"
    assert read.consumer["client.id"] == written.kafka["client.id"] == "me"
    assert "compression.type" not in read.consumer
    assert "isolation.level" not in written.kafka


@pytest.mark.usefixtures("without_spark")
def test_whoever_waits_for_a_broker_is_told_how_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.spark.pipeline.preflight._SOON_MS", 200)
    soon = {"default.api.timeout.ms": 1000, "request.timeout.ms": 1000}
    with pytest.raises(PipelineError, match="no answer in 1 s"):
        Pipeline("fraud", "in", "out", bootstrap_servers="127.0.0.1:1", kafka=soon).run()
    (told,) = [each for each in caplog.messages if "Waiting for up to 0.8 s more" in each]
    assert told.startswith("No broker can be reached: 127.0.0.1:1: ")


@pytest.mark.usefixtures("without_spark")
def test_a_broker_that_answers_nobody_ends_a_pipeline_before_spark_starts(
    ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "127.0.0.1:1"
    there = ottla_broker.bootstrap_servers
    soon = {"default.api.timeout.ms": "1000", "request.timeout.ms": "1000", "max.block.ms": "500"}

    def made(servers: str, source: str) -> Pipeline:
        return Pipeline(
            *("fraud", re.compile("in"), "out"),
            bootstrap_servers=servers,
            kafka=soon,
            source_options={"kafka.bootstrap.servers": source},
        )

    for servers, source in ((nobody, nobody), (there, nobody), (nobody, there)):
        with pytest.raises(
            PipelineError, match=f"fraud did not start, no answer in .* s: No broker .*{nobody}"
        ):
            made(servers, source).run()
    with pytest.raises(SparkStartedError):
        made(there, there).run()
    # A process that takes the place of another one waits for its broker as the other one would have done.
    monkeypatch.setattr("ottla.spark.pipeline.run_overrides._current", Run(goes_on=True))
    with pytest.raises(SparkStartedError):
        made(nobody, nobody).run()


def test_a_transform_that_returns_nothing_is_told() -> None:
    pipeline = Pipeline("fraud", "payments", "alerts", transform=lambda rows: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="is a return missing"):
        _transformed(pipeline, None)  # type: ignore[arg-type]
