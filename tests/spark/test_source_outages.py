"""How long the source asks a cluster that does not answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("pyspark")

from tests.faults.processes import free_port
from tests.spark.source_stage import SourceStage

from ottla import Broker
from ottla.errors import TimedOutError
from ottla.spark.source.cluster import SourceCluster
from ottla.spark.source.source_options import SourceOptions, read_batch_options, read_stream_options

IMPATIENT = {
    "kafka.fetch.max.wait.ms": "50",
    "kafka.request.timeout.ms": "100",
    "kafka.default.api.timeout.ms": "200",
}

PATIENT = {"kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "30000"}


def options_for(servers: str, topic: str = "orders") -> dict[str, str]:
    quick = {"fetchOffset.retryIntervalMs": "10", **IMPATIENT}
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, **quick}


def repeats(caplog: pytest.LogCaptureFixture) -> int:
    """How often a question was asked again."""
    return sum(
        bool(re.match(r"attempt \d+ of a request to the cluster failed", each))
        for each in caplog.messages
    )


@pytest.fixture
def mortal() -> Iterator[tuple[Broker, SourceStage]]:
    """A broker of this test's own, with a topic."""
    with Broker(listen=f"127.0.0.1:{free_port()}") as broker:
        stage = SourceStage(broker.bootstrap_servers, "orders")
        stage.create(1)
        yield broker, stage
        stage.close()


@pytest.mark.parametrize("read", [read_batch_options, read_stream_options])
def test_a_query_that_never_reached_its_cluster_tries_for_one_timeout_and_says_where(
    read: Callable[[dict[str, str]], SourceOptions], caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = {**options_for(address), "kafka.default.api.timeout.ms": "600"}
    cluster = SourceCluster(read(options))
    with pytest.raises(TimedOutError) as caught:
        cluster.found_at_first()
    cluster.close()
    assert f"{address}: Cannot connect: 127.0.0.1: Connection refused" in str(caught.value)
    assert repeats(caplog) == 0


@pytest.mark.parametrize(("read", "repeated"), [(read_batch_options, 0), (read_stream_options, 2)])
def test_a_stream_outlasts_timeouts_once_it_has_reached_its_cluster_and_a_batch_query_does_not(
    mortal: tuple[Broker, SourceStage],
    read: Callable[[dict[str, str]], SourceOptions],
    repeated: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker, stage = mortal
    cluster = SourceCluster(read({**options_for(stage.servers), **PATIENT}))
    cluster.found_at_first()
    broker.stop()
    # What it is to try without the broker is little.
    cluster.close()
    cluster._options = read(options_for(stage.servers))
    caplog.clear()
    with pytest.raises(TimedOutError):
        cluster.found()
    cluster.close()
    assert repeats(caplog) == repeated
