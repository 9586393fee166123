"""The checker of faults under Spark finds what it is there to find."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark import verdict

import ottla
from ottla import Broker
from ottla.admin import NewTopic
from ottla.model import TopicPartition
from ottla.spark.sink.progress import Marker, marker_group, transactional_id

ENDS = [4, 8, 11]


class Story:
    """A pipeline with three micro-batches of four, four and three records, written as a test says."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers, self.name, self.folder = servers, name, folder
        self.source, self.sink = f"{name}-in", f"{name}-out"
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(self.source, 1), NewTopic(self.sink, 2)])
        with ottla.Producer(bootstrap_servers=servers) as producer:
            for number in range(ENDS[-1]):
                producer.send(self.source, b"%d" % number, partition=0)
        (folder / "offsets").mkdir()
        (folder / "metadata").write_text('{"id": "q"}')
        for number, end in enumerate(ENDS):
            position = {"version": 1, "topics": {self.source: {"0": end}}}
            if not number:
                position["begin"] = {self.source: {"0": 0}}
            (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(position)}")
        own = {"bootstrap.servers": servers, "transactional.id": transactional_id(name)}
        self.producer = ottla.Producer(own)
        self.producer.init_transactions()

    def write(self, numbers: range, batch: int, end: int | None = None) -> None:
        """A transaction with these records, and marker and offsets of a micro-batch."""
        producer = self.producer
        producer.begin_transaction()
        self.send(numbers)
        place = TopicPartition(self.source, 0)
        at = ENDS[batch] if end is None else end
        producer.send_offsets_to_transaction({place: at}, self.name)
        plan = (self.folder / "offsets" / str(batch)).read_bytes()
        marker = Marker("q", batch, hashlib.sha256(plan).hexdigest()[:32])
        producer.send_offsets_to_transaction(
            {TopicPartition(self.sink, 0): marker.to_offset()}, marker_group(self.name)
        )
        producer.commit_transaction()

    def send(self, numbers: range) -> None:
        for number in numbers:
            value = f"{self.source} 0 {number} {number}".encode()
            self.producer.send(self.sink, value, partition=number % 2)

    @property
    def checked(self) -> verdict.Checked:
        return verdict.Checked(
            *(self.name, self.servers, self.sink, self.servers, [self.source], [self.folder]),
            verdict.copied,
        )


@pytest.fixture
def story(
    spark_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> Iterator[Story]:
    made = Story(spark_broker.bootstrap_servers, ottla_topic_name(), tmp_path)
    yield made
    made.producer.close(0)


def test_micro_batches_that_are_whole_pass(story: Story) -> None:
    assert story.checked.check_whole() == 0
    story.write(range(4), 0)
    assert story.checked.check_whole() == 1
    story.producer.begin_transaction()
    story.send(range(2))
    story.producer.flush()
    assert story.checked.check_whole() == 1
    story.producer.abort_transaction()
    story.write(range(4, 8), 1)
    with pytest.raises(AssertionError):
        story.checked.check_done()
    story.write(range(8, 11), 2)
    assert story.checked.check_done() == 3


@pytest.mark.parametrize(
    "numbers",
    [range(4, 7), range(5, 8), range(3, 8), range(4, 9), range(4), range(0)],
    ids=["last one lost", "first one lost", "repeated", "too many", "another one", "nothing"],
)
def test_records_that_are_lost_or_repeated_are_found(story: Story, numbers: range) -> None:
    story.write(range(4), 0)
    story.write(numbers, 1)
    with pytest.raises(AssertionError, match=r"[12] transactions"):
        story.checked.check_whole()


def test_a_micro_batch_in_two_transactions_is_found(story: Story) -> None:
    story.write(range(2), 0)
    story.write(range(2, 4), 0)
    with pytest.raises(AssertionError, match="2 transactions"):
        story.checked.check_whole()


def test_a_micro_batch_that_is_written_twice_is_found(story: Story) -> None:
    story.write(range(4), 0)
    story.write(range(4), 0)
    with pytest.raises(AssertionError, match="2 transactions"):
        story.checked.check_whole()


def test_two_micro_batches_in_one_transaction_are_found(story: Story) -> None:
    story.write(range(8), 1)
    with pytest.raises(AssertionError, match="1 transactions"):
        story.checked.check_whole()


def test_offsets_that_are_not_those_of_the_output_are_found(story: Story) -> None:
    story.write(range(4), 0, end=5)
    with pytest.raises(AssertionError):
        story.checked.check_whole()


def test_records_outside_of_transactions_are_found(story: Story) -> None:
    story.write(range(4), 0)
    with ottla.Producer(bootstrap_servers=story.servers) as producer:
        producer.send(story.sink, b"x", partition=0)
    with pytest.raises(AssertionError):
        story.checked.check_whole()


def test_an_open_transaction_is_not_the_end(story: Story) -> None:
    story.write(range(4), 0)
    story.write(range(4, 8), 1)
    story.write(range(8, 11), 2)
    story.producer.begin_transaction()
    story.send(range(1))
    story.producer.flush()
    story.checked.check_whole()
    with pytest.raises(AssertionError):
        story.checked.check_done()
