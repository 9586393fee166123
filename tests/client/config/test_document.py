"""The guide's tables are those of the config classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.plugins.list_serializer import SERIALIZERS
from ottla.client.plugins.partitioners import BUILT_IN
from ottla.config.admin import AdminConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.document import MARK, main, page
from ottla.config.options import Config, options_of
from ottla.config.producer import ProducerConfig
from ottla.core.assignors.registry import ASSIGNORS

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "configuration.md"
TEXT = PAGE.read_text(encoding="utf-8")
CLIENTS: list[type[Config]] = [ProducerConfig, ConsumerConfig, AdminConfig]
SYNONYMS = {"string", "integer"}


def test_the_tables_are_up_to_date() -> None:
    assert page(TEXT) == TEXT, f"run python -m ottla.config.document {PAGE}"


@pytest.mark.parametrize("config_class", CLIENTS)
def test_every_option_is_in_the_guide(config_class: type[Config]) -> None:
    for name, option in options_of(config_class).items():
        assert f"| `{name}` |" in TEXT
        assert option.doc.replace("|", "\\|") in TEXT


@pytest.mark.parametrize("config_class", CLIENTS)
def test_every_refusal_is_in_the_guide(config_class: type[Config]) -> None:
    for name, hint in config_class.unsupported.items():
        assert f"| `{name}" in TEXT
        assert hint in TEXT


@pytest.mark.parametrize("built_in", [SERIALIZERS, BUILT_IN, ASSIGNORS])
def test_the_guide_knows_the_short_names(built_in: dict[str, object]) -> None:
    prose = TEXT.partition(MARK)[0]
    for name in built_in:
        assert "." in name or name in SYNONYMS or f"`{name}`" in prose


def test_the_program_rewrites_the_page(tmp_path: Path) -> None:
    stale = tmp_path / "page.md"
    stale.write_text(f"prose\n{MARK}\nold tables", encoding="utf-8")
    assert main([str(stale)]) == 0
    assert stale.read_text(encoding="utf-8") == f"prose\n{TEXT[TEXT.index(MARK) :]}"


def test_a_page_without_a_mark_is_left_alone() -> None:
    with pytest.raises(ValueError, match="where the tables begin"):
        page("prose only")
