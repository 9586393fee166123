"""Bad seeds say what is wrong with them, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ConfigError
from ottla.testing import Broker
from ottla.testing.seeding import read_seed


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("missing.yaml", None, "missing.yaml cannot be read"),
        ("seed.txt", "", "a seed is a file of"),
        ("seed.yaml", "", "has no topics"),
        ("seed.yaml", "[1]", "has no topics"),
        ("seed.yaml", "a: [", "cannot be read"),
        ("seed.json", '{"tea": 3}', "topic tea: write"),
        ("seed.yaml", "tea: {partition: 3}", "topic tea: 'partition' is not one of"),
        ("seed.yaml", "tea: {partitions: 0}", "partitions=0 is no number"),
        ("seed.yaml", "tea: {configs: 3}", "configs are a mapping"),
        ("seed.yaml", "tea: {records: 3}", "records are a list"),
        ("seed.yaml", "tea: {records: [{vlaue: x}]}", "record 1: 'vlaue' is not a field"),
        ("seed.yaml", "tea: {records: no.jsonl}", "no.jsonl cannot be read"),
        ("tea.jsonl", '{"value": 1}\n{', "tea.jsonl, line 2: it is not JSON"),
    ],
)
def test_a_bad_seed_is_refused(tmp_path: Path, name: str, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=reason):
        read_seed(name, tmp_path)


def test_a_seed_is_a_dict_or_a_file() -> None:
    with pytest.raises(ConfigError, match=r"\['tea'\] is no seed: give a dict"):
        read_seed(["tea"])  # type: ignore[arg-type]


@pytest.mark.parametrize("partitions", [2, None])
def test_a_record_for_a_partition_that_is_not_there_is_refused_at_once(
    ottla_test_broker: Broker, partitions: int | None
) -> None:
    count = partitions or 1
    tea = {"partitions": partitions, "records": [{"value": "x", "partition": 7}]}
    with pytest.raises(ConfigError, match=f"topic tea: .* partition 7, and the topic has {count}"):
        ottla_test_broker.seed({"coffee": {}, "tea": tea})
    ottla_test_broker.seed({"coffee": {}, "tea": {}})  # nothing was created


def test_a_file_of_lines_is_a_topic() -> None:
    assert [topic.name for topic in read_seed({"tea": None, "coffee": {}})] == ["tea", "coffee"]


def test_configs_are_as_the_protocol_wants_them() -> None:
    (topic,) = read_seed({"tea": {"configs": {"retention.ms": -1, "preallocate": True}}})
    assert topic.configs == {"retention.ms": "-1", "preallocate": "true"}
