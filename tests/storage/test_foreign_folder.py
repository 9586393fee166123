"""A folder that another program wrote: identity, names that are taken, topics without a catalog."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.batches import fill, read_all, ref_of
from tests.storage.conftest import Opener

from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.topics import adopt_topics
from ottla.config.topic import TopicConfig
from ottla.ports import StorageError
from ottla.storage.local import LocalStoreOptions

CONFIG = TopicConfig()
META = "#\n#Thu Jan 01 00:00:00 UTC 2026\nnode.id=1\ndirectory.id=x\nversion=1\ncluster.id=Kafkas\n"


def foreign(open_store: Opener, folder: Path) -> bytes:
    """A folder with partitions and without our catalog; what is in one of them."""
    store = open_store(folder)
    for topic, partition, number in (("orders", 0, 1), ("orders", 2, 1), ("payments", 0, 2)):
        log = store.claim(ref_of(topic, partition, number), CONFIG)
        fill(log, 5)
    content = read_all(log)
    store.close()
    (folder / "catalog.journal").unlink()
    (folder / "format.properties").unlink()
    (folder / "meta.properties").write_text(META)
    kafkas = folder / "__cluster_metadata-0"
    kafkas.mkdir()
    (kafkas / f"{0:020d}.log").write_bytes(b"no batch")
    (kafkas / "quorum-state").write_text("{}")
    return content


@pytest.mark.parametrize("is_clean", [True, False])
def test_topics_are_taken_over_once(open_store: Opener, tmp_path: Path, is_clean: bool) -> None:
    content = foreign(open_store, tmp_path)
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    store = open_store(tmp_path)
    assert store.cluster_id == "Kafkas"
    cluster = Cluster(store, SystemClock(), SystemIds())
    adopt_topics(cluster)
    topics = cluster.catalog.topics
    assert {name: topic.partition_count for name, topic in topics.items()} == {
        "orders": 3,
        "payments": 1,
    }
    assert topics["orders"].topic_id == ref_of(number=1).topic_id
    assert topics["orders"].config["retention.ms"] == "-1", "nothing is deleted unasked"
    assert read_all(store.claim(ref_of("payments", 0, 2), CONFIG)) == content
    assert (tmp_path / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes() == b"no batch"
    cluster.commit(cluster.catalog.delete(topics["payments"], 0))
    store.close()
    again = Cluster(open_store(tmp_path), SystemClock(), SystemIds())
    adopt_topics(again)
    assert list(again.catalog.topics) == ["orders"], "what was deleted does not come back"


def test_a_folder_of_ours_that_lost_its_journal_gives_out_no_producer_id_twice(
    open_store: Opener, tmp_path: Path
) -> None:
    foreign(open_store, tmp_path)
    store = open_store(tmp_path)
    cluster = Cluster(store, SystemClock(), SystemIds())
    adopt_topics(cluster)
    given = [cluster.producer_ids.take() or 0 for _ in range(2500)]
    store.close()
    (tmp_path / "catalog.journal").unlink()
    cluster = Cluster(open_store(tmp_path), SystemClock(), SystemIds())
    adopt_topics(cluster)
    assert (cluster.producer_ids.take() or 0) > max(given)


def test_partitions_of_one_name_and_different_ids_are_not_mixed(
    open_store: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path)
    fill(store.claim(ref_of("orders", 0, 1), CONFIG), 1)
    fill(store.claim(ref_of("orders", 1, 2), CONFIG), 1)
    cluster = Cluster(store, SystemClock(), SystemIds())
    adopt_topics(cluster)
    assert not cluster.catalog.topics
    assert "partitions of 'orders' have different topic ids" in caplog.text


def test_kafkas_catalog_is_no_partition(open_store: Opener, tmp_path: Path) -> None:
    foreign(open_store, tmp_path)
    store = open_store(tmp_path)
    assert "__cluster_metadata" not in [ref.topic for ref in store.partitions()]
    assert ("__cluster_metadata", 0) not in store.log_dirs()[0].partitions
    with pytest.raises(StorageError, match="cannot be the name of a folder"):
        store.claim(ref_of("__cluster_metadata"), CONFIG)


def test_the_folder_of_another_node_is_refused_with_what_to_do(
    open_store: Opener, tmp_path: Path
) -> None:
    foreign(open_store, tmp_path)
    with pytest.raises(StorageError, match=r"belongs to node\.id 1, not 2: use another folder"):
        open_store(tmp_path, LocalStoreOptions(node_id=2))


def test_a_folder_that_kafka_has_locked_is_refused(open_store: Opener, tmp_path: Path) -> None:
    """Java's file locks are POSIX record locks."""
    program = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / ".lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StorageError, match="in use by another broker"):
            open_store(tmp_path)
    open_store(tmp_path)
