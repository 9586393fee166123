"""The types of options are generated: they are those of the declarations, and none is missing."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from ottla.config import option_types
from ottla.config.options import options_of
from ottla.config.typed_options import CLASSES, TARGET, OptionClass, module_text


def test_the_generated_module_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == module_text(), (
        "run `python -m ottla.config.typed_options`"
    )


@pytest.mark.parametrize("shown", CLASSES, ids=lambda shown: shown.name)
def test_every_option_and_alias_has_a_type(shown: OptionClass) -> None:
    hints = get_type_hints(getattr(option_types, shown.name))
    parents = (shown.parent,) if shown.parent is not None else ()
    options = [
        known
        for config_class in (*parents, shown.config_class, *shown.also)
        for known in options_of(config_class).values()
    ]
    aliases = {alias.replace(".", "_") for known in options for alias in known.aliases}
    assert set(hints) == {known.field_name for known in options} | aliases
