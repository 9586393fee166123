"""How an option is declared, read from text or Python values, checked and printed."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Self, TypeAlias

from ottla.errors import ConfigError

INT_MAX = (1 << 31) - 1

Value: TypeAlias = bool | int | float | str | tuple[str, ...]


class OptionType(IntEnum):
    """Kafka's types of options, numbered as in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ResourceType(IntEnum):
    """A type of resources that have configs, with Kafka's number."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of an option comes from, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        """UNKNOWN, for sources of newer Kafka versions; brokers before 1.1 send none."""
        return cls.UNKNOWN


class Importance(StrEnum):
    """How likely it is that a user has to change the option."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


_BITS = {OptionType.SHORT: 16, OptionType.INT: 32, OptionType.LONG: 64}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LIST_SEPARATOR = re.compile(r"\s*,\s*")
_METADATA_KEY = "ottla.option"


@dataclass(frozen=True)
class ConfigOption:
    """The declaration of one option: parsing, checks, DescribeConfigs and documents follow from it."""

    name: str
    type: OptionType
    default: Value | None
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    also: int | None = None
    """One more value that is accepted outside the range."""
    choices: tuple[str, ...] = ()
    importance: Importance = Importance.MEDIUM
    dynamic: bool = False
    """Whether it can be altered at run time; otherwise it is read-only."""
    synonyms: tuple[str, ...] = ()
    """The broker options that set the default of a topic option, the strongest first."""
    aliases: tuple[str, ...] = ()
    """Other names under which the same option is accepted."""
    ignore_case: bool = False
    """Whether a choice may be written in any case; the value is as the choices have it."""
    many: bool = False
    """Whether an option that names code takes a list of names and objects."""
    pattern: str = ""
    """A regular expression for the text of a list; `pattern_text` says it in words."""
    pattern_text: str = ""
    changes_nothing: str = ""
    """Why an option of Kafka's has no effect in Ottla; empty if it has one."""
    only_default: str = ""
    """Why no value but the default is accepted; empty if others are."""

    @property
    def field_name(self) -> str:
        """The name of the dataclass field."""
        return self.name.replace(".", "_")

    @property
    def documentation(self) -> str:
        """The effect of the option, and how Ottla differs from Kafka."""
        if self.changes_nothing:
            return f"{self.doc} It has no effect in Ottla: {self.changes_nothing}."
        if self.only_default:
            return f"{self.doc} Ottla accepts only the default: {self.only_default}."
        return self.doc

    @property
    def has_effect(self) -> bool:
        """Whether some value of it changes what Ottla does."""
        return not (self.changes_nothing or self.only_default)

    @property
    def sensitive(self) -> bool:
        """Whether the value must not be shown."""
        return self.type is OptionType.PASSWORD

    def read(self, raw: object) -> Any:
        """The checked value of `raw`: text as in a properties file, or a Python value."""
        return self.check(self._parse(raw) if isinstance(raw, str) else raw)

    def check(self, value: object) -> Any:
        """`value` if it has the option's type and lies in its range; else a ConfigError.

        The result is a `Value`, or any object for an option that names code.
        """
        if value is None and self.default is None:
            return None
        checked = self._check_type(value)
        if self.only_default and checked != self.default:
            raise ConfigError(f"{self.name}={self.render(checked)} is refused: {self.only_default}")
        return checked

    def _check_type(self, value: object) -> Any:
        match self.type:
            case OptionType.BOOLEAN:
                if isinstance(value, bool):
                    return value
                raise self._refuse(value, "true or false")
            case OptionType.SHORT | OptionType.INT | OptionType.LONG:
                return self._check_integer(value)
            case OptionType.DOUBLE:
                if isinstance(value, int | float) and not isinstance(value, bool):
                    return self._check_range(float(value))
                raise self._refuse(value, "a number")
            case OptionType.LIST:
                return self._check_list(value)
            case OptionType.CLASS:
                return self._check_code(value)
            case _:
                return self._check_text(value)

    def render(self, value: Any) -> str | None:
        """The value as Kafka prints it; an unset option has none."""
        if value is None:
            return None
        if self.type is OptionType.CLASS:
            return ",".join(map(code_name, value)) if self.many else code_name(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return str(value).upper().replace("E+", "E")  # as Java writes it
        return str(value)

    def _parse(self, text: str) -> object:
        text = text.strip()
        match self.type:
            case OptionType.BOOLEAN:
                return {"true": True, "false": False}.get(text.lower(), text)
            case OptionType.SHORT | OptionType.INT | OptionType.LONG:
                # Longer numbers cannot be in range, and are slow to convert.
                return int(text) if _INTEGER.fullmatch(text) and len(text) <= 40 else text
            case OptionType.DOUBLE:
                try:
                    return float(text)
                except ValueError:
                    return text
            case OptionType.LIST:
                return tuple(_LIST_SEPARATOR.split(text)) if text else ()
            case OptionType.CLASS if self.many:
                return tuple(_LIST_SEPARATOR.split(text)) if text else ()
            case _:
                return text

    def _check_integer(self, value: object) -> int:
        bits = _BITS[self.type]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._refuse(value, "a whole number")
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self._refuse(value, f"a number of at most {bits} bits")
        if value == self.also:
            return value
        self._check_range(value)
        return value

    def _check_range(self, number: float) -> float:
        if not math.isfinite(number):
            raise self._refuse(number, "a finite number")
        if self.at_least is not None and number < self.at_least:
            raise self._refuse(number, self._range_text())
        if self.at_most is not None and number > self.at_most:
            raise self._refuse(number, self._range_text())
        return number

    def _check_text(self, value: object) -> str:
        # Users write acks=1, where Kafka's type is text.
        if self.choices and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise self._refuse(value, self._choices_text() or "text")
        if self.ignore_case:
            same = [choice for choice in self.choices if choice.lower() == value.lower()]
            value = same[0] if same else value
        if self.choices and value not in self.choices:
            raise self._refuse(value, self._choices_text())
        return value

    def _check_code(self, value: object) -> object:
        """One name or object, or a tuple of them; the client looks names up."""
        if not self.many:
            if value in (None, "") or isinstance(value, list | tuple):
                raise self._refuse(value, "one name or object")
            return value
        items = tuple(value) if isinstance(value, list | tuple) else (value,)
        if any(item in (None, "") for item in items):
            raise self._refuse(items, "a list of names or objects without empty parts")
        return items

    def _check_list(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise self._refuse(value, "a comma-separated list")
        items = tuple(value)
        for item in items:
            if not isinstance(item, str) or not item:
                raise self._refuse(self._joined(value), "a list without empty parts")
            if self.choices and item not in self.choices:
                raise self._refuse(self._joined(value), f"a list of {', '.join(self.choices)}")
        if len(set(items)) != len(items):
            raise self._refuse(self._joined(value), "a list without repetitions")
        if self.pattern and re.fullmatch(self.pattern, ",".join(items), re.ASCII) is None:
            raise self._refuse(self._joined(value), self.pattern_text)
        return items

    @staticmethod
    def _joined(value: Iterable[object]) -> str:
        return ",".join(str(item) for item in value)

    def _choices_text(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else ""

    def _range_text(self) -> str:
        other = "" if self.also is None else f", or {self.also}"
        if self.at_least is None:
            return f"at most {self.at_most}{other}"
        if self.at_most is None:
            return f"at least {self.at_least}{other}"
        return f"from {self.at_least} to {self.at_most}{other}"

    def _refuse(self, value: object, wanted: str) -> ConfigError:
        shown = "(hidden)" if self.sensitive else repr(value)
        return ConfigError(f"{self.name}={shown} is not valid: it must be {wanted}")


def code_name(code: object) -> str:
    """The dotted name of a class or function, or of an object's class."""
    if isinstance(code, str):
        return code
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{named.__module__}.{named.__qualname__}"


def option(type: OptionType, default: Value | None, *, doc: str, **details: Any) -> Any:
    """Declare a field of a config class; the option's name is the field's, with dots."""
    return field(
        default=default,
        repr=type is not OptionType.PASSWORD,
        metadata={_METADATA_KEY: {"type": type, "default": default, "doc": doc, **details}},
    )


@dataclass(frozen=True)
class Config:
    """The base of config classes: checks all values, and knows which options were given."""

    kind: ClassVar[str] = "option"
    """The words for an option of this class in messages, such as `topic option`."""
    unsupported: ClassVar[Mapping[str, str]] = {}
    """Options of Kafka that Ottla lacks, with a hint; `ssl.` stands for all names that start with it."""

    given: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)
    """Names of the options that were set, even if to their default."""
    scoped: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False, hash=False)
    """Options for a part of what is configured, by their whole names: see `scoped_option`."""

    def __post_init__(self) -> None:
        changed = set[str]()
        for field_name, known in _fields_of(type(self)):
            value = getattr(self, field_name)
            # Most options have their default, which is as its check would have it.
            if value is known.default:
                continue
            value = known.check(value)
            object.__setattr__(self, field_name, value)
            if value != known.default:
                changed.add(known.name)
        for name, value in self.scoped.items():
            find_option(type(self), name).check(value)
        object.__setattr__(self, "given", self.given | changed | self.scoped.keys())
        self.adjust_defaults()
        self.validate()

    def adjust_defaults(self) -> None:
        """Change defaults that conflict with the options that were given."""

    def validate(self) -> None:
        """Check the rules between options; raise a ConfigError that says what to change."""

    @classmethod
    def advice_for(cls, name: str) -> str | None:
        """Advice about an option that this class does not have, if there is any."""
        return None

    @classmethod
    def scoped_option(cls, name: str) -> ConfigOption | None:
        """The option that a name with a prefix stands for, such as listener.name.internal.ssl.client.auth.

        Its value is in `scoped`. None if the name has no such prefix.
        """
        return None

    @classmethod
    def read(cls, options: Mapping[str, object]) -> Self:
        """Build from Kafka's option names and their values, as text or as Python values."""
        values = read_options(cls, options)
        own = options_of(cls)
        fields: dict[str, Any] = {
            own[name].field_name: value for name, value in values.items() if name in own
        }
        scoped = {name: value for name, value in values.items() if name not in own}
        given = frozenset(name for name, value in values.items() if value is not None)
        return cls(**fields, given=given, scoped=scoped)

    def texts(self) -> dict[str, str]:
        """The given options as text, by name: `read` makes an equal config of them."""
        rendered = {name: value_text(self, name) for name in sorted(self.given)}
        return {name: text for name, text in rendered.items() if text is not None}


_OPTIONS: dict[type[Config], Mapping[str, ConfigOption]] = {}


def options_of(config_class: type[Config]) -> Mapping[str, ConfigOption]:
    """The options of a config class by name, in the order of declaration."""
    if config_class not in _OPTIONS:
        options = {}
        for declared in dataclasses.fields(config_class):
            if _METADATA_KEY in declared.metadata:
                name = declared.name.replace("_", ".")
                options[name] = ConfigOption(name=name, **declared.metadata[_METADATA_KEY])
        _OPTIONS[config_class] = options
    return _OPTIONS[config_class]


_FIELDS: dict[type[Config], tuple[tuple[str, ConfigOption], ...]] = {}


def _fields_of(config_class: type[Config]) -> tuple[tuple[str, ConfigOption], ...]:
    """The options of a config class with the names of their fields."""
    if config_class not in _FIELDS:
        options = options_of(config_class).values()
        _FIELDS[config_class] = tuple((known.field_name, known) for known in options)
    return _FIELDS[config_class]


def find_option(config_class: type[Config], name: str) -> ConfigOption:
    """The option `name`; the ConfigError distinguishes a misspelt name from one that Ottla does not support."""
    options = options_of(config_class)
    if name in options:
        return options[name]
    for known in options.values():
        if name in known.aliases:
            return known
    if (scoped := config_class.scoped_option(name)) is not None:
        return scoped
    kind = f"{'an' if config_class.kind[0] in 'aeiou' else 'a'} {config_class.kind}"
    if (hint := unsupported_hint(config_class, name)) is not None:
        raise ConfigError(f"{name} is {kind} of Kafka that Ottla does not have: {hint}")
    if (advice := config_class.advice_for(name)) is not None:
        raise ConfigError(f"{name} is not {kind}: {advice}")
    useful = [known.name for known in options.values() if known.has_effect]
    nearest = difflib.get_close_matches(name, useful, n=1, cutoff=0.6)
    advice = f"did you mean {nearest[0]}?" if nearest else "remove it or check its spelling"
    raise ConfigError(f"{name!r} is not {kind}: {advice}")


def unsupported_hint(config_class: type[Config], name: str) -> str | None:
    """Advice about an option of Kafka that Ottla lacks; None if `name` is not one of them."""
    for absent, hint in config_class.unsupported.items():
        if name == absent or (absent.endswith(".") and name.startswith(absent)):
            return hint
    return None


def read_options(
    config_class: type[Config], options: Mapping[str, object]
) -> dict[str, Value | None]:
    """The checked values of the options that are given, by their proper names."""
    values: dict[str, Value | None] = {}
    for name, raw in options.items():
        known = find_option(config_class, name)
        value = known.read(raw)
        if known.name in values and values[known.name] != value:
            other = next(alias for alias in (known.name, *known.aliases) if alias != name)
            raise ConfigError(
                f"{name} and {other} are the same option with different values: give only one"
            )
        values[known.name] = value
    return values


def dotted_names(keywords: Mapping[str, object]) -> dict[str, object]:
    """Options by Kafka's names, from Python keywords (`log_segment_bytes`) or Kafka's names."""
    options: dict[str, object] = {}
    for keyword, value in keywords.items():
        name = keyword.replace("_", ".")
        if name in options:
            raise ConfigError(f"{name} is given twice, with dots and with underscores: give one")
        options[name] = value
    return options


def value_of(config: Config, name: str) -> Any:
    """The value of the option `name`."""
    if name in config.scoped:
        return config.scoped[name]
    return getattr(config, options_of(type(config))[name].field_name)


def value_text(config: Config, name: str) -> str | None:
    """The value of the option `name` as text."""
    return find_option(type(config), name).render(value_of(config, name))
