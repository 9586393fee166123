from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.admin import AdminConfig
from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.group import GroupOptions
from ottla.config.listeners import ListenerConfig
from ottla.config.options import (
    Config,
    ConfigOption,
    Importance,
    OptionType,
    Value,
    dotted_names,
    find_option,
    option,
    options_of,
)
from ottla.config.producer import ProducerConfig
from ottla.config.sasl import MechanismConfig, SaslConfig
from ottla.config.tls import TlsConfig
from ottla.config.topic import TopicConfig
from ottla.errors import ConfigError
from ottla.schemas.config import DeserializerConfig, RegistryConfig, SerializerConfig


@dataclass(frozen=True)
class OvenConfig(Config):
    kind: ClassVar[str] = "oven option"
    unsupported: ClassVar[Mapping[str, str]] = {
        "grill.enable": "open a window",
        "steam.": "use a pot",
    }

    fan_enable: bool = option(OptionType.BOOLEAN, False, doc="Fan.")
    heat_degrees: int = option(OptionType.SHORT, 180, at_least=50, at_most=250, also=0, doc="Heat.")
    bake_ms: int | None = option(OptionType.LONG, None, doc="Time.", importance=Importance.HIGH)
    door_key: str = option(OptionType.PASSWORD, "1234", choices=("1234", "4321"), doc="Key.")
    shelf_names: tuple[str, ...] = option(OptionType.LIST, (), doc="Shelves.", aliases=("racks",))
    door_ratio: float = option(OptionType.DOUBLE, 0.0, at_least=0, at_most=1, doc="Opening.")

    def validate(self) -> None:
        if self.fan_enable and self.heat_degrees == 0:
            raise ConfigError("fan.enable needs heat.degrees: raise it")


CONFIG_CLASSES = (
    *(TopicConfig, BrokerConfig, ListenerConfig, GroupOptions, ClientMetricsConfig),
    *(ProducerConfig, ConsumerConfig, AdminConfig, MechanismConfig, SaslConfig, TlsConfig),
    *(RegistryConfig, SerializerConfig, DeserializerConfig, OvenConfig),
)
ALL_OPTIONS = [
    known
    for config_class in (TopicConfig, BrokerConfig, OvenConfig)
    for known in options_of(config_class).values()
]
_BITS = {OptionType.SHORT: 16, OptionType.INT: 32, OptionType.LONG: 64}


def values_of(known: ConfigOption) -> st.SearchStrategy[Value]:
    """Values that the option accepts."""
    if known.only_default:
        assert known.default is not None
        return st.just(known.default)
    match known.type:
        case OptionType.BOOLEAN:
            return st.booleans()
        case OptionType.DOUBLE:
            return st.floats(known.at_least, known.at_most, allow_nan=False, allow_infinity=False)
        case OptionType.LIST if known.pattern:
            return st.lists(st.from_regex(r"\A[0-9]{1,3}:[0-9]\Z"), unique=True).map(tuple)
        case OptionType.LIST:
            names = st.sampled_from(known.choices) if known.choices else st.sampled_from("abc")
            return st.lists(names, unique=True).map(tuple)
        case OptionType.STRING | OptionType.PASSWORD if not known.choices:
            return st.text("abc:;=", max_size=9)
        case OptionType.STRING | OptionType.PASSWORD:
            return st.sampled_from(known.choices or ("a", "b c"))
        case _:
            limit = 1 << (_BITS[known.type] - 1)
            low = -limit if known.at_least is None else int(known.at_least)
            high = limit - 1 if known.at_most is None else int(known.at_most)
            return st.integers(low, high)


@given(st.sampled_from(ALL_OPTIONS).flatmap(lambda o: st.tuples(st.just(o), values_of(o))))
def test_values_survive_printing_and_reading(case: tuple[ConfigOption, Value]) -> None:
    known, value = case
    text = known.render(value)
    assert text is not None
    assert known.read(text) == value
    assert known.read(f" {text}\t") == value


@given(st.sampled_from(ALL_OPTIONS), st.text(max_size=50) | st.integers() | st.floats() | st.none())
def test_garbage_is_a_value_or_a_config_error(known: ConfigOption, garbage: object) -> None:
    with contextlib.suppress(ConfigError):
        value = known.read(garbage)
        assert known.check(value) == value


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("fan.enable", "yes", "fan.enable='yes' is not valid: it must be true or false"),
        ("fan.enable", 1, "it must be true or false"),
        ("heat.degrees", "hot", "heat.degrees='hot' is not valid: it must be a whole number"),
        ("heat.degrees", "1_00", "it must be a whole number"),
        ("heat.degrees", "1.5", "it must be a whole number"),
        ("heat.degrees", True, "it must be a whole number"),
        ("heat.degrees", "40000", "at most 16 bits"),
        ("heat.degrees", "9" * 100, "it must be a whole number"),
        ("heat.degrees", "49", "it must be from 50 to 250, or 0"),
        ("heat.degrees", 251, "it must be from 50 to 250, or 0"),
        ("heat.degrees", None, "it must be a whole number"),
        ("bake.ms", str(1 << 63), "at most 64 bits"),
        ("door.ratio", "1.01", "it must be from 0 to 1"),
        ("door.ratio", "nan", "it must be a finite number"),
        ("door.ratio", "wide", "it must be a number"),
        ("shelf.names", "a,,b", "a list without empty parts"),
        ("shelf.names", "a,a", "a list without repetitions"),
        ("shelf.names", 3, "a comma-separated list"),
    ],
)
def test_a_bad_value_is_refused_with_what_it_must_be(name: str, raw: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OvenConfig.read({name: raw})


def test_a_password_is_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"door.key=\(hidden\)"):
        OvenConfig.read({"door.key": "letmein"})


def test_a_value_outside_the_range_can_be_allowed_by_name() -> None:
    assert OvenConfig.read({"heat.degrees": "0"}).heat_degrees == 0


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"heat.degrees=20 is not valid"):
        OvenConfig(heat_degrees=20)


def test_rules_between_options_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"fan.enable needs heat.degrees: raise it"):
        OvenConfig.read({"fan.enable": "true", "heat.degrees": "0"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("heat.degree", r"'heat.degree' is not an oven option: did you mean heat.degrees\?"),
        ("heat_degrees", r"did you mean heat.degrees\?"),
        ("zzz", "remove it or check its spelling"),
        ("grill.enable", "is an oven option of Kafka that Ottla does not have: open a window"),
        ("steam.pressure", "that Ottla does not have: use a pot"),
    ],
)
def test_an_unknown_name_gets_advice(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_option(OvenConfig, name)


def test_an_alias_is_the_same_option() -> None:
    assert OvenConfig.read({"racks": "a, b"}).shelf_names == ("a", "b")
    assert OvenConfig.read({"racks": "a", "shelf.names": "a"}).shelf_names == ("a",)
    with pytest.raises(ConfigError, match="same option with different values"):
        OvenConfig.read({"racks": "a", "shelf.names": "b"})


def test_given_options_are_remembered_even_at_their_default() -> None:
    config = OvenConfig.read({"heat.degrees": "180", "bake.ms": None})
    assert config.given == {"heat.degrees"}
    assert config == OvenConfig()
    assert OvenConfig(bake_ms=5).given == {"bake.ms"}


def test_the_texts_of_a_config_make_it_again() -> None:
    config = OvenConfig.read({"heat.degrees": 180, "bake.ms": 7, "shelf.names": ["x", "y"]})
    again = OvenConfig.read(config.texts())
    assert (again, again.given) == (config, config.given)
    assert config.texts() == {"bake.ms": "7", "heat.degrees": "180", "shelf.names": "x,y"}


def test_keywords_become_kafkas_names() -> None:
    assert dotted_names({"heat_degrees": 60, "bake.ms": 1}) == {"heat.degrees": 60, "bake.ms": 1}
    with pytest.raises(ConfigError, match="given twice"):
        dotted_names({"bake_ms": 1, "bake.ms": 2})


@pytest.mark.parametrize("known", ALL_OPTIONS, ids=lambda known: known.name)
def test_every_option_has_a_valid_default_and_a_sentence(known: ConfigOption) -> None:
    assert known.check(known.default) == known.default
    assert known.doc[0].isupper()
    assert known.doc.endswith(".")


@pytest.mark.parametrize("config_class", CONFIG_CLASSES, ids=lambda each: each.__name__)
def test_checking_a_default_changes_nothing(config_class: type[Config]) -> None:
    """So a config checks only what differs from the defaults."""
    for known in options_of(config_class).values():
        checked = known.check(known.default)
        assert checked == known.default
        assert type(checked) is type(known.default), known.name


@pytest.mark.parametrize("equal_to_default", [0, 0.0, False])
def test_what_only_equals_a_default_is_checked(equal_to_default: Any) -> None:
    """False equals 0.0 and 0, but is no number."""
    if isinstance(equal_to_default, bool):
        with pytest.raises(ConfigError, match="a number"):
            OvenConfig(door_ratio=equal_to_default)
    else:
        config = OvenConfig(door_ratio=equal_to_default)
        assert type(config.door_ratio) is float
        assert config.given == set()
