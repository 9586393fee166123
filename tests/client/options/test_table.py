"""No option is accepted and ignored: each has a test that shows what it does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.client.options.table import ADMIN, CONSUMER, PRODUCER, SHARED

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import Config, options_of
from ottla.config.producer import ProducerConfig

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("config", "table"),
    [(ProducerConfig, PRODUCER), (ConsumerConfig, CONSUMER), (AdminConfig, ADMIN)],
)
def test_every_option_is_in_the_table(config: type[Config], table: dict[str, str]) -> None:
    assert set(SHARED) == set(options_of(ClientConfig))
    assert set(options_of(config)) == {*SHARED, *table}
    assert not {*SHARED} & {*table}


def source_of(place: str) -> str:
    """The text of a test, with what decorates it."""
    path, *names = place.split("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    found: ast.AST = ast.parse(text)
    for name in names:
        (found,) = [
            node
            for node in ast.iter_child_nodes(found)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
    assert isinstance(found, ast.FunctionDef), f"{place} is no test"
    decorators = [ast.get_source_segment(text, each) or "" for each in found.decorator_list]
    return "\n".join((*decorators, ast.get_source_segment(text, found) or ""))


# Tests whose options are made by a function or a table beside them.
NAMED_BESIDE = {
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
}


@pytest.mark.parametrize("table", [SHARED, PRODUCER, CONSUMER, ADMIN])
def test_the_test_of_an_option_exists_and_names_it(table: dict[str, str]) -> None:
    for name, place in table.items():
        source = source_of(place)
        known = name in source or name.replace(".", "_") in source
        assert known or name in NAMED_BESIDE, f"{place} does not name {name}"
