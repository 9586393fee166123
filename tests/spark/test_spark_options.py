"""Every option of Spark's Kafka guide works or is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.document import page
from ottla.spark.given_options import kafka_options, values
from ottla.spark.options import (
    OPTIONS,
    READS,
    REFUSED_READING,
    REFUSED_WRITING,
    WRITES,
    SparkOption,
    Use,
)
from ottla.spark.source.limits import EARLIEST, LATEST, AtOffsets, AtTimes, Everywhere
from ottla.spark.source.source_options import (
    SourceOptions,
    Subscription,
    check_for_any_query,
    includes_headers,
    read_batch_options,
    read_stream_options,
)

GUIDE_PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark-source.md"
BATCH, STREAM = Use.BATCH_READ, Use.STREAM_READ

# Spark's guide, "Structured Streaming + Kafka Integration Guide": option, a value, and which queries may have it.
GUIDE: dict[str, tuple[str, tuple[Use, ...]]] = {
    "assign": ('{"t":[0]}', READS),
    "subscribe": ("t", READS),
    "subscribePattern": ("t.*", READS),
    "startingTimestamp": ("1000", READS),
    "startingOffsetsByTimestamp": ('{"t":{"0":1000}}', READS),
    "startingOffsets": ("earliest", READS),
    "endingTimestamp": ("1000", (BATCH,)),
    "endingOffsetsByTimestamp": ('{"t":{"0":1000}}', (BATCH,)),
    "endingOffsets": ("latest", (BATCH,)),
    "failOnDataLoss": ("false", READS),
    "kafkaConsumer.pollTimeoutMs": ("1000", READS),
    "fetchOffset.numRetries": ("5", READS),
    "fetchOffset.retryIntervalMs": ("20", READS),
    "maxOffsetsPerTrigger": ("10", (STREAM,)),
    "minOffsetsPerTrigger": ("10", (STREAM,)),
    "maxTriggerDelay": ("5m", (STREAM,)),
    "minPartitions": ("10", READS),
    "maxRecordsPerPartition": ("10", READS),
    "groupIdPrefix": ("mine", READS),
    "includeHeaders": ("true", READS),
    "startingOffsetsByTimestampStrategy": ("latest", READS),
    "topic": ("t", WRITES),
    # Of DataStreamWriter, which hands them to sinks among the options.
    "checkpointLocation": ("/c", (Use.STREAM_WRITE,)),
    "queryName": ("q", (Use.STREAM_WRITE,)),
}
OURS = {
    *("pipeline", "commitOffsets", "delivery", "markerTopic", "failOnUnknownProgress"),
    *("commitSourceOffsets", "checkpointStorageOptions", "pinnedTopics", "minRecordsPerPartition"),
}
# What the guide says cannot be set through `kafka.`.
UNSETTABLE = {
    BATCH: {"auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit"}
    | {"interceptor.classes"},
    Use.BATCH_WRITE: {"key.serializer", "value.serializer"},
}
SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9"}
LEAST = {**SERVERS, "subscribe": "t"}


def read(use: Use, given: Mapping[str, str]) -> SourceOptions:
    return read_batch_options(given) if use is BATCH else read_stream_options(given)


def test_the_guide_has_the_tables() -> None:
    text = GUIDE_PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run python -m ottla.spark.document docs/guides/spark-source.md"


def test_the_table_has_the_guides_options_and_ours() -> None:
    served = {option.name for option in OPTIONS}
    assert served == GUIDE.keys() | OURS
    assert {option.name for option in OPTIONS if not option.of_spark} == OURS


@pytest.mark.parametrize("use", list(Use))
@pytest.mark.parametrize("name", GUIDE)
def test_an_option_of_the_guide_works_or_is_refused_by_name(name: str, use: Use) -> None:
    value, uses = GUIDE[name]
    for spelling in (name, name.lower()):
        given = {spelling: value}
        if use in uses:
            assert values(given, use)[name] != values({}, use)[name]
        else:
            with pytest.raises(ConfigError, match=rf"{name} is for .*, and this is {use.value}"):
                values(given, use)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_misspelt_name_is_answered_with_the_spelling_of_the_documents(
    option: SparkOption,
) -> None:
    """Spark lowers names, so what was typed is not known any more."""
    typed = option.key[:-3] + option.key[-2:]
    for use in option.uses:
        with pytest.raises(ConfigError, match=rf"'{typed}' is .*: did you mean {option.name}\?"):
            values({typed: "1"}, use)


def test_every_option_of_a_source_changes_what_is_read() -> None:
    for use in READS:
        plain = read(use, LEAST)
        for name, (value, uses) in GUIDE.items():
            if use not in uses or name in ("startingOffsetsByTimestampStrategy",):
                continue
            given = {**LEAST, name: value}
            if name in ("assign", "subscribe", "subscribePattern"):
                given = {**SERVERS, name: value.replace("t", "u")}
            if name in ("startingOffsets", "endingOffsets"):
                given[name] = '{"t":{"0":3}}'
            assert read(use, given) != plain, name


@pytest.mark.parametrize(("use", "names"), UNSETTABLE.items())
def test_what_the_guide_says_cannot_be_set_is_refused(use: Use, names: set[str]) -> None:
    refused = REFUSED_READING if use in READS else REFUSED_WRITING
    assert names <= refused.keys()
    for name in refused:
        with pytest.raises(ConfigError, match=rf"kafka\.{name} cannot be set: \w+"):
            kafka_options({**SERVERS, f"kafka.{name}": "x"}, use)


@pytest.mark.parametrize("use", list(Use))
def test_options_of_clients_are_checked(use: Use) -> None:
    mine = {"kafka.request.timeout.ms": "5000", "kafka.receive.buffer.bytes": "100000"}
    assert kafka_options({**SERVERS, **mine}, use) == {
        "bootstrap.servers": "127.0.0.1:9",
        "request.timeout.ms": "5000",
        "receive.buffer.bytes": "100000",
        # Not Kafka's default.
        "send.buffer.bytes": "-1",
    }
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        kafka_options({}, use)
    with pytest.raises(ConfigError, match=r"did you mean request\.timeout\.ms"):
        kafka_options({**SERVERS, "kafka.request.timeout": "1"}, use)
    with pytest.raises(ConfigError, match=r"request\.timeout\.ms='soon' is not valid"):
        kafka_options({**SERVERS, "kafka.request.timeout.ms": "soon"}, use)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endingOffst": "x"}, r"did you mean endingOffsets\?"),
        ({"maxOffsetPerTrigger": "5"}, r"did you mean maxOffsetsPerTrigger\?"),
        ({"pinnedTopics": "t"}, "pinnedTopics is for .* writes, and this is .* reads or .* reads"),
        ({"endingOffsets": "middle"}, "endingOffsets="),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger="),
        ({"startingOffsets": "middle"}, "startingOffsets="),
        ({"kafka.group.idd": "x"}, r"group\.id"),
    ],
)
def test_what_no_query_takes_is_refused_before_its_kind_is_known(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check_for_any_query({**LEAST, **given})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"endingOffsets": "latest"},
        {"maxOffsetsPerTrigger": "5"},
        {"startingOffsets": "latest"},  # not of a batch
        # Each of a kind of its own: the query says so when it is known which it is.
        {"maxOffsetsPerTrigger": "5", "endingOffsets": "latest"},
    ],
)
def test_what_some_query_takes_is_not_refused_before_its_kind_is_known(
    given: dict[str, str],
) -> None:
    check_for_any_query({**LEAST, **given})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("startingOffset", "did you mean startingOffsets"),
        ("bootstrap.servers", r"did you mean kafka\.bootstrap\.servers"),
        ("path", "subscribe and topic name what is read"),
        ("spark.kafka.consumer.cache.capacity", "setting of the session"),
        ("zzz", "remove it or check its spelling"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_advice(name: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        values({name: "x"}, STREAM)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("failOnDataLoss", "perhaps"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxOffsetsPerTrigger", str(1 << 63)),
        ("minPartitions", "-1"),
        ("minRecordsPerPartition", "0"),
        ("minRecordsPerPartition", "-5"),
        ("maxTriggerDelay", "soon"),
        ("maxTriggerDelay", "5 fortnights"),
        ("startingTimestamp", "-1"),
        ("startingOffsetsByTimestampStrategy", "guess"),
        ("startingOffsets", "middle"),
        ("startingOffsets", '{"t":{"0":-3}}'),
        ("startingOffsetsByTimestamp", '{"t":{"0":-1}}'),
        ("subscribe", " , "),
        ("pipeline", " "),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}="):
        read_stream_options({**LEAST, name: value})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("2 min", 120_000), ("1H", 3_600_000), ("7", 7), ("1d", 86_400_000)],
)
def test_times_are_read_as_spark_writes_them(text: str, ms: int) -> None:
    assert read_stream_options({**LEAST, "maxTriggerDelay": text}).max_delay_ms == ms


# Starts and ends


@pytest.mark.parametrize("use", READS)
def test_a_time_counts_before_times_by_partition_and_those_before_offsets(use: Use) -> None:
    given = {**LEAST, "startingOffsets": "earliest"}
    assert read(use, given).start == Everywhere(EARLIEST)
    given["startingOffsetsByTimestamp"] = '{"t":{"0":7}}'
    assert read(use, given).start == AtTimes({TopicPartition("t", 0): 7})
    given["startingTimestamp"] = "9"
    assert read(use, given).start == Everywhere(9)


def test_a_stream_begins_at_the_end_and_a_batch_reads_everything() -> None:
    assert read_stream_options(LEAST).start == Everywhere(LATEST)
    batch = read_batch_options(LEAST)
    assert (batch.start, batch.end) == (Everywhere(EARLIEST), Everywhere(LATEST))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets of all partitions is latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets of t-0 is latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets of all partitions is earliest"),
        ({"endingOffsets": '{"t":{"1":-2}}'}, "endingOffsets of t-1 is earliest"),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            "t-0 begins at 5, behind its end at 4",
        ),
        (
            {"startingTimestamp": "5", "endingTimestamp": "4"},
            r"startingTimestamp \(5\) is behind endingTimestamp \(4\)",
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":9}}'},
            "name different partitions",
        ),
    ],
)
def test_a_batch_that_could_read_nothing_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_batch_options({**LEAST, **options})


def test_offsets_may_say_earliest_and_latest() -> None:
    options = read_batch_options(
        {**LEAST, "startingOffsets": '{"t":{"0":-2}}', "endingOffsets": '{"t":{"0":-1}}'}
    )
    assert options.start == AtOffsets({TopicPartition("t", 0): EARLIEST})
    assert options.end == AtOffsets({TopicPartition("t", 0): LATEST})


# What is read, and as whom


def test_what_is_read_is_said_once() -> None:
    with pytest.raises(ConfigError, match="none is given"):
        read_stream_options(SERVERS)
    with pytest.raises(ConfigError, match="assign and subscribe are given"):
        read_stream_options({**LEAST, "assign": '{"t":[0]}'})
    with pytest.raises(ConfigError, match="no regular expression"):
        read_stream_options({**SERVERS, "subscribePattern": "("})
    assert read_stream_options({**SERVERS, "subscribe": "b, a,b,"}).subscription == Subscription(
        topics=("a", "b")
    )


def test_only_committed_records_are_read_unless_somebody_wants_more() -> None:
    assert read_stream_options(LEAST).isolation_level == "read_committed"
    given = {**LEAST, "kafka.isolation.level": "read_uncommitted"}
    assert read_stream_options(given).isolation_level == "read_uncommitted"


def test_a_group_has_the_prefix_and_queries_with_other_options_have_another() -> None:
    groups = [
        read_stream_options({**LEAST, "groupIdPrefix": "mine", **more}).consumer["group.id"]
        for more in ({}, {}, {"minPartitions": "3"})
    ]
    assert groups[0] == groups[1] != groups[2]
    assert all(group.startswith("mine-") for group in groups)
    assert read_stream_options(LEAST).consumer["group.id"].startswith("spark-kafka-source-")
    own = {**LEAST, "kafka.group.id": "own", "groupIdPrefix": "mine"}
    assert read_stream_options(own).consumer["group.id"] == "own"


def test_passwords_are_neither_shown_nor_part_of_names() -> None:
    with_password = {
        **LEAST,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "secret",
    }
    options = read_stream_options(with_password)
    assert "secret" not in repr(options)
    other = read_stream_options({**with_password, "kafka.sasl.password": "another"})
    assert options.consumer["group.id"] == other.consumer["group.id"]


def test_offsets_for_the_lag_need_a_group_and_no_pipeline() -> None:
    given = {**LEAST, "commitOffsets": "true"}
    with pytest.raises(ConfigError, match=r"needs a group: give kafka\.group\.id"):
        read_stream_options(given)
    given["kafka.group.id"] = "g"
    assert read_stream_options(given).commit_group == "g"
    with pytest.raises(ConfigError, match="exclude each other"):
        read_stream_options({**given, "pipeline": "p"})
    assert read_stream_options({**LEAST, "kafka.group.id": "g"}).commit_group is None


def test_a_least_above_the_most_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger \(2\) is above"):
        read_stream_options({**LEAST, "minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"})


@pytest.mark.parametrize("use", READS)
def test_tasks_cannot_have_more_at_least_than_at_most(use: Use) -> None:
    given = {**LEAST, "minRecordsPerPartition": "20", "maxRecordsPerPartition": "19"}
    with pytest.raises(
        ConfigError, match=r"minRecordsPerPartition \(20\) is above maxRecordsPerPartition \(19\)"
    ):
        read(use, given)
    assert read(use, {**given, "maxRecordsPerPartition": "20"}).task_sizes == (None, 20, 20)
    assert read(use, {**LEAST, "minPartitions": "3"}).task_sizes == (3, None, None)


def test_the_columns_are_known_before_the_query_is() -> None:
    assert not includes_headers({"endingoffsets": "latest", "pipeline": "p"})
    assert includes_headers({"includeheaders": "TRUE", "pipeline": "p"})
