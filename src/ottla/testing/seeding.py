"""The topics and records with which a test begins, from files or dicts.

A seed is a YAML or JSON file, or a dict, of topics by name:

    orders:
      partitions: 3
      configs: {cleanup.policy: compact}
      records:
        - {key: table 4, value: {drink: tea}, headers: {source: till}, partition: 0, timestamp: 1700000000000}
    payments:
      records: payments.jsonl

Everything but the name may be left out. A record is what `ottla produce --format json` reads as a line: text stands for
its UTF-8, `{"base64": "..."}` for other bytes, and any other value for its JSON. `records` may name a file of such
lines, as `ottla consume -o json` writes them. A seed may also be such a file itself: its name without `.jsonl` is the
topic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from ottla.errors import ConfigError
from ottla.inspection.json_lines import RecordToSend, parse, record_of
from ottla.testing.faults import OWN_CLIENT_ID

Seed = str | os.PathLike[str] | Mapping[str, object]

LINES: Final = (".jsonl", ".ndjson")
TREES: Final = (".yaml", ".yml", ".json")
SEND_SECONDS: Final = 30.0
_FIELDS: Final = frozenset({"partitions", "configs", "records"})


@dataclass(frozen=True)
class SeededTopic:
    """A topic to create, with its records."""

    name: str
    partitions: int | None
    configs: Mapping[str, str]
    records: Sequence[RecordToSend]


def read_seed(seed: Seed, folder: str | os.PathLike[str] = ".") -> list[SeededTopic]:
    """The topics of a seed; relative paths are relative to `folder`."""
    if isinstance(seed, Mapping):
        return _topics_of(seed, "the seed", Path(folder))
    if not isinstance(seed, str | os.PathLike):
        raise ConfigError(f"{seed!r} is no seed: give a dict of topics by name, or a file")
    path = Path(folder, seed)
    if path.suffix in LINES:
        return [SeededTopic(path.stem, None, {}, _lines_of(path))]
    if path.suffix not in TREES:
        raise ConfigError(f"{path}: a seed is a file of {', '.join((*TREES, *LINES))}")
    try:
        found = yaml.safe_load(_text_of(path))  # JSON is YAML
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return _topics_of(found, str(path), path.parent)


def _topics_of(found: object, where: str, folder: Path) -> list[SeededTopic]:
    if not isinstance(found, Mapping) or not found:
        raise ConfigError(f"{where} has no topics: it is a mapping of topics by name")
    return [_topic_of(str(name), said, where, folder) for name, said in found.items()]


def _topic_of(name: str, said: object, where: str, folder: Path) -> SeededTopic:
    where = f"{where}, topic {name}"
    fields = {} if said is None else said
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where}: write {{partitions: 3, configs: {{...}}, records: [...]}}")
    unknown = sorted(map(str, fields.keys() - _FIELDS))
    if unknown:
        raise ConfigError(f"{where}: {unknown[0]!r} is not one of {sorted(_FIELDS)}")
    partitions = fields.get("partitions")
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise ConfigError(f"{where}: partitions={partitions!r} is no number of partitions")
    configs = fields.get("configs") or {}
    if not isinstance(configs, Mapping):
        raise ConfigError(f"{where}: configs are a mapping of options by Kafka's names")
    return SeededTopic(
        name,
        partitions,
        {str(option): _config_text(value) for option, value in configs.items()},
        _records_of(fields.get("records"), where, folder),
    )


def _config_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _records_of(said: object, where: str, folder: Path) -> list[RecordToSend]:
    if said is None:
        return []
    if isinstance(said, str):
        return _lines_of(folder / said)
    if not isinstance(said, list):
        raise ConfigError(f"{where}: records are a list, or the name of a file of JSON lines")
    records = []
    for number, each in enumerate(said, 1):
        try:
            records.append(record_of(each))
        except ValueError as error:
            raise ConfigError(f"{where}, record {number}: {error}") from error
    return records


def _lines_of(path: Path) -> list[RecordToSend]:
    records = []
    for number, line in enumerate(_text_of(path).splitlines(), 1):
        try:
            if line.strip():
                records.append(parse(line.encode()))
        except ValueError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from error
    return records


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def write_seed(options: Mapping[str, object], topics: Sequence[SeededTopic]) -> None:
    """Creates the topics and sends their records, in order; topics that exist are an error."""
    from ottla.client.admin_model.topics import NewTopic
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.producer import Producer

    with Admin(options, client_id=OWN_CLIENT_ID) as admin:
        existing = sorted({topic.name for topic in topics} & set(admin.list_topics()))
        if existing:
            raise ConfigError(
                f"topic {existing[0]} exists already: seed a broker that is new, such as ottla_test_broker"
            )
        new = [NewTopic(topic.name, topic.partitions, configs=topic.configs) for topic in topics]
        possible = admin.create_topics(new, validate_only=True)
        for topic in topics:
            _check_partitions(topic, possible[topic.name].num_partitions)
        admin.create_topics(new)
    with Producer(options, client_id=OWN_CLIENT_ID) as producer:
        sent = [
            producer.send(
                topic.name,
                record.value,
                record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            for topic in topics
            for record in topic.records
        ]
        for each in sent:
            each.result(SEND_SECONDS)


def _check_partitions(topic: SeededTopic, count: int | None) -> None:
    """Refuses records for partitions that the topic will not have; a producer would wait for them to appear."""
    highest = max((each.partition or 0 for each in topic.records), default=0)
    if count is not None and highest >= count:
        raise ConfigError(
            f"the seed, topic {topic.name}: a record is for partition {highest},"
            f" and the topic has {count}: write partitions: {highest + 1}"
        )
