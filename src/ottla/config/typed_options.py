"""Writes option_types.py, the options of clients and brokers as type checkers and editors see them.

`python -m ottla.config.typed_options` renews the module after a declaration of an option was changed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.config.admin import AdminConfig
from ottla.config.broker import BrokerConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import Config, ConfigOption, OptionType, options_of
from ottla.config.producer import ProducerConfig

TARGET = Path(__file__).with_name("option_types.py")
_LINE_CHARS = 100

_HEAD = '''"""The options that are given as keywords, for type checkers and editors.

Generated from the declarations by `python -m ottla.config.typed_options`: change those, not this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    # Python has defaults of type variables from 3.13 on; type checkers know them before.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)


class ReadsBytes(Protocol[T_co]):
    """A deserializer with typed results."""

    def deserialize(self, topic: str, headers: Any, data: Any, /) -> T_co:
        """The object that `data` encodes; None for None."""


# The result of a plain function is not the type of keys or values: it is never called for None, which stays None.
DeserializerOf: TypeAlias = str | ReadsBytes[T_co] | type[ReadsBytes[T_co]] | Callable[[bytes], Any]

'''

# Options that determine the types of keys and values.
_TYPED_CODE = {"key.deserializer": "DeserializerOf[K]", "value.deserializer": "DeserializerOf[V]"}

_TYPES = {
    OptionType.BOOLEAN: "bool",
    OptionType.STRING: "str",
    OptionType.INT: "int",
    OptionType.SHORT: "int",
    OptionType.LONG: "int",
    OptionType.DOUBLE: "float",
    OptionType.LIST: "str | list[str] | tuple[str, ...]",
    # A name, a class, a function or an object, or a list of them: the client checks it when it looks the name up.
    OptionType.CLASS: "object",
    OptionType.PASSWORD: "str",
}


class OptionClass(NamedTuple):
    """One TypedDict: the options of a config class that its parent lacks."""

    name: str
    config_class: type[Config]
    parent: type[Config] | None
    parent_name: str
    """With its type variables, if it has any."""
    doc: str
    takes_none: bool
    """Whether options may be None, which counts as not given."""
    also: tuple[type[Config], ...] = ()
    """More config classes, whose options belong to it too."""


CLASSES = (
    OptionClass(
        name="ClientOptions",
        config_class=ClientConfig,
        parent=None,
        parent_name="TypedDict",
        doc="The options that all clients share.",
        takes_none=True,
    ),
    OptionClass(
        name="ProducerOptions",
        config_class=ProducerConfig,
        parent=ClientConfig,
        parent_name="ClientOptions",
        doc="The options of `ottla.Producer` and `ottla.aio.Producer`.",
        takes_none=True,
    ),
    OptionClass(
        name="ConsumerOptions",
        config_class=ConsumerConfig,
        parent=ClientConfig,
        parent_name="ClientOptions, Generic[K, V]",
        doc="The options of `ottla.Consumer` and `ottla.aio.Consumer`.",
        takes_none=True,
    ),
    OptionClass(
        name="AdminOptions",
        config_class=AdminConfig,
        parent=ClientConfig,
        parent_name="ClientOptions",
        doc="The options of `ottla.Admin` and `ottla.aio.Admin`.",
        takes_none=True,
    ),
    OptionClass(
        name="AppOptions",
        config_class=ConsumerConfig,
        parent=ProducerConfig,
        parent_name="ProducerOptions",
        doc="The options of `ottla.app.App`: those of producers, consumers and admin clients.",
        takes_none=True,
        also=(AdminConfig,),
    ),
    OptionClass(
        name="BrokerOptions",
        config_class=BrokerConfig,
        parent=None,
        parent_name="TypedDict",
        doc="The options of `ottla.Broker`.",
        takes_none=False,
    ),
)


def module_text() -> str:
    """The whole module, as ruff formats it."""
    words: dict[tuple[str, ...], str] = {}
    classes = [_class_text(shown, words) for shown in CLASSES]
    aliases = [
        f"{name}: TypeAlias = Literal[\n" + "".join(f"    {word},\n" for word in choices) + "]\n"
        for choices, name in words.items()
    ]
    return "\n".join([_HEAD, *aliases]) + "".join(f"\n\n{text}" for text in classes)


def _class_text(shown: OptionClass, words: dict[tuple[str, ...], str]) -> str:
    inherited = {} if shown.parent is None else options_of(shown.parent)
    lines = [
        f"class {shown.name}({shown.parent_name}, total=False):",
        f'    """{shown.doc}"""',
    ]
    options = {
        known.name: known
        for config_class in (shown.config_class, *shown.also)
        for known in options_of(config_class).values()
    }
    for known in options.values():
        if known.name in inherited:
            continue
        type_text = _type_text(known, words, takes_none=shown.takes_none)
        if shown.also:
            # One app has many listeners, whose annotations say what keys and values are.
            type_text = type_text.replace("[K]", "[Any]").replace("[V]", "[Any]")
        lines += ["", f"    {known.field_name}: {type_text}", *_doc_lines(known.documentation)]
        for alias in known.aliases:
            lines += [
                f"    {alias.replace('.', '_')}: {type_text}",
                *_doc_lines(f"Another name of {known.name}."),
            ]
    return "\n".join(lines) + "\n"


def _doc_lines(doc: str) -> list[str]:
    width = _LINE_CHARS - 4
    if len(doc) + 6 <= width:
        return [f'    """{doc}"""']
    first, *others = textwrap.wrap(f'"""{doc}', width)
    return [f"    {first}", *(f"    {line}" for line in others), '    """']


def _type_text(known: ConfigOption, words: dict[tuple[str, ...], str], *, takes_none: bool) -> str:
    text = _TYPED_CODE.get(known.name, _TYPES[known.type])
    if known.choices and known.type is not OptionType.LIST:
        text = _alias_name(known, tuple(_literals(known)), words)
    if text != "object" and (takes_none or known.default is None):
        text += " | None"
    return text


def _literals(known: ConfigOption) -> Iterator[str]:
    """The choices of an option as Python literals: in lower and upper case if case is ignored, numbers also as int."""
    for choice in known.choices:
        forms = [choice]
        if known.ignore_case:
            forms += [choice.lower(), choice.upper()]
        for form in dict.fromkeys(forms):
            yield f'"{form}"'
    for choice in known.choices:
        if choice.lstrip("-").isdigit():
            yield choice


def _alias_name(
    known: ConfigOption, literals: tuple[str, ...], words: dict[tuple[str, ...], str]
) -> str:
    if literals not in words:
        name = "".join(part.capitalize() for part in known.name.split(".")) + "Word"
        words[literals] = f"Broker{name}" if name in words.values() else name
    return words[literals]


if __name__ == "__main__":
    TARGET.write_text(module_text(), encoding="utf-8")
