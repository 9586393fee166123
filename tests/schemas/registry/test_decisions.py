"""The state machine, without a topic: what a request changes, and when it is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.schemas.registry import decisions
from ottla.schemas.registry.decisions import Decision, Registration
from ottla.schemas.registry.errors import RegistryError
from ottla.schemas.registry.model import (
    CompatibilityLevel,
    Mode,
    Reference,
    SchemaContent,
    StoredVersion,
    SubjectConfig,
)
from ottla.schemas.registry.state import RegistryState
from ottla.schemas.registry.stored_records import (
    HighestId,
    SchemaStored,
    StoredRecord,
    decode,
    encode,
)


class Registry:
    """A state whose decisions are applied at once, through their bytes."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.log: dict[bytes, bytes | None] = {}

    def carry_out(self, decision: Decision) -> Decision:
        for record in decision.records:
            key, value = encode(record)
            # A compacted topic: the last value of a key stays, at the end.
            self.log.pop(key, None)
            self.log[key] = value
            decoded = decode(key, value)
            assert decoded == record
            self.state.apply(decoded)
        return decision

    def register(self, subject: str, text: str, *references: Reference, **given: int) -> int:
        registration = Registration(subject, SchemaContent("AVRO", text, references), **given)
        decision = decisions.decide_registration(self.state, registration)
        answer = self.carry_out(decision).answer
        assert isinstance(answer, StoredVersion)
        return answer.schema_id

    def delete(self, subject: str, *, permanent: bool = False) -> list[int]:
        decision = decisions.decide_subject_deletion(self.state, subject, permanent)
        numbers: list[int] = self.carry_out(decision).answer
        return numbers

    def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> None:
        self.carry_out(decisions.decide_version_deletion(self.state, subject, number, permanent))

    def set_mode(self, subject: str | None, mode: Mode, *, force: bool = False) -> None:
        self.carry_out(decisions.decide_mode(self.state, subject, mode, force))

    def compacted(self) -> RegistryState:
        """What a registry knows that reads the topic after its compaction, tombstones gone."""
        state = RegistryState()
        for key, value in self.log.items():
            record = decode(key, value)
            if value is not None and record is not None:
                state.apply(record)
        return state


@pytest.fixture
def registry() -> Registry:
    return Registry()


def refused(code: int, call: Callable[[], object]) -> None:
    with pytest.raises(RegistryError) as caught:
        call()
    assert caught.value.code == code
    assert str(code).startswith(str(caught.value.status))


def test_the_same_schema_has_one_id_under_all_subjects(registry: Registry) -> None:
    assert registry.register("a", "1") == 1
    assert registry.register("a", "2") == 2
    assert registry.register("b", "2") == 2
    assert registry.register("a", "1") == 1
    assert [each.version for each in registry.state.all_versions("a")] == [1, 2]
    assert [each.place for each in registry.state.with_id(2)] == [("a", 2), ("b", 1)]


def test_versions_are_deleted_softly_first(registry: Registry) -> None:
    registry.register("a", "1")
    refused(40401, lambda: registry.delete_version("b", 1))
    refused(40402, lambda: registry.delete_version("a", 2))
    refused(40407, lambda: registry.delete_version("a", 1, permanent=True))
    registry.delete_version("a", 1)
    refused(40406, lambda: registry.delete_version("a", 1))
    refused(40404, lambda: registry.delete("a"))
    registry.delete_version("a", 1, permanent=True)
    refused(40401, lambda: registry.delete("a"))


def test_subjects_are_deleted_softly_first(registry: Registry) -> None:
    registry.register("a", "1")
    registry.register("a", "2")
    refused(40405, lambda: registry.delete("a", permanent=True))
    assert registry.delete("a") == [1, 2]
    refused(40404, lambda: registry.delete("a"))
    assert registry.delete("a", permanent=True) == [1, 2]
    refused(40401, lambda: registry.delete("a"))


def test_a_schema_that_is_registered_again_replaces_its_deleted_version(registry: Registry) -> None:
    registry.register("a", "1")
    registry.delete("a")
    assert registry.register("a", "1") == 1
    assert [(each.version, each.is_deleted) for each in registry.state.all_versions("a")] == [
        (2, False)
    ]


def test_what_is_referred_to_is_not_deleted(registry: Registry) -> None:
    registry.register("item", "1")
    registry.register("order", "2", Reference("Item", "item", 1))
    refused(42206, lambda: registry.delete_version("item", 1))
    refused(42206, lambda: registry.delete("item"))
    registry.delete("order")
    registry.delete("item")
    refused(42206, lambda: registry.delete("item", permanent=True))
    registry.delete("order", permanent=True)
    registry.delete("item", permanent=True)
    refused(42201, lambda: registry.register("order", "2", Reference("Item", "item", 1)))


def test_an_id_is_not_given_again_after_deletion_and_compaction(registry: Registry) -> None:
    registry.register("a", "1")
    registry.register("b", "2")
    registry.delete("b")
    registry.delete("b", permanent=True)
    assert registry.compacted().highest_id == 2
    assert registry.register("c", "3") == 3


def test_a_subject_that_is_deleted_for_good_loses_its_settings(registry: Registry) -> None:
    registry.register("a", "1")
    config = SubjectConfig(CompatibilityLevel.FULL)
    registry.carry_out(decisions.decide_config(registry.state, "a", config))
    registry.set_mode("a", Mode.READWRITE)
    registry.delete("a")
    assert registry.state.config_in_scope("a") == config
    registry.delete("a", permanent=True)
    assert registry.state.configs == {}
    assert registry.state.modes == {}


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.READONLY_OVERRIDE])
def test_nothing_is_written_in_read_only_modes(registry: Registry, mode: Mode) -> None:
    registry.register("a", "1")
    registry.set_mode(None, mode)
    refused(42205, lambda: registry.register("a", "2"))
    refused(42205, lambda: registry.delete("a"))
    refused(42205, lambda: decisions.decide_config(registry.state, "a", SubjectConfig()))
    registry.set_mode("a", Mode.READWRITE)
    if mode is Mode.READONLY:
        assert registry.register("a", "2") == 2
    else:
        refused(42205, lambda: registry.register("a", "2"))
    registry.set_mode(None, Mode.READWRITE)
    assert registry.register("a", "2") == 2


def test_import_takes_ids_and_versions_as_they_come(registry: Registry) -> None:
    refused(42205, lambda: registry.register("a", "1", schema_id=17, version=3))
    registry.set_mode("a", Mode.IMPORT)
    refused(42205, lambda: registry.register("a", "1"))
    assert registry.register("a", "1", schema_id=17, version=3) == 17
    refused(42205, lambda: registry.register("a", "2", schema_id=17, version=4))
    refused(42205, lambda: registry.register("a", "2", schema_id=18, version=3))
    registry.set_mode("a", Mode.READWRITE)
    assert registry.register("a", "2") == 18
    assert [each.version for each in registry.state.all_versions("a")] == [3, 4]


def test_import_begins_with_an_empty_registry_unless_it_is_forced(registry: Registry) -> None:
    registry.register("a", "1")
    refused(42205, lambda: registry.set_mode(None, Mode.IMPORT))
    registry.set_mode(None, Mode.IMPORT, force=True)
    registry.set_mode(None, Mode.READWRITE)
    registry.delete("a")
    registry.set_mode(None, Mode.IMPORT)
    assert registry.state.subjects == {}
    assert registry.compacted().highest_id == 1


def test_levels_choose_what_is_compared(registry: Registry) -> None:
    for text in ("1", "2", "3"):
        registry.register("a", text)
    for level in CompatibilityLevel:
        config = SubjectConfig(level)
        registry.carry_out(decisions.decide_config(registry.state, "a", config))
        prepared = decisions.prepare_registration(
            registry.state, Registration("a", SchemaContent("AVRO", "4"))
        )
        assert isinstance(prepared, decisions.CompareWith)
        expected = [3, 2, 1] if level.is_transitive else [3]
        numbers = [each.version for each in prepared.previous]
        assert numbers == ([] if level is CompatibilityLevel.NONE else expected)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_foreign_records_are_skipped(key: bytes, value: bytes | None) -> None:
    state = RegistryState()
    record = decode(key, value)
    if record is not None:
        state.apply(record)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}', b"{}"),
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"subject":"a"}'),
        (b'{"keytype":"MODE","magic":0}', b'{"mode":"FORWARD"}'),
    ],
)
def test_records_that_are_not_known_change_nothing(key: bytes, value: bytes | None) -> None:
    assert decode(key, value) is None


def test_the_records_have_the_bytes_of_confluents_registry() -> None:
    content = SchemaContent("JSON", "{}", (Reference("i", "item", 1),))
    stored: StoredRecord = SchemaStored(StoredVersion("a", 2, 7, content))
    assert encode(stored) == (
        b'{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}',
        b'{"subject":"a","version":2,"id":7,"schemaType":"JSON",'
        b'"references":[{"name":"i","subject":"item","version":1}],"schema":"{}","deleted":false}',
    )
    assert encode(HighestId(7)).key == b'{"keytype":"NOOP","magic":0}'


def test_a_record_of_confluents_registry_is_read() -> None:
    # With fields that this registry does not know.
    record = decode(
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
        b'{"subject":"a","version":1,"id":3,"md5":"xyz","schema":"\\"int\\"","deleted":true,"offset":0}',
    )
    assert record == SchemaStored(StoredVersion("a", 1, 3, SchemaContent("AVRO", '"int"'), True))


class Changes(RuleBasedStateMachine):
    """Random requests: what every registry must be able to rely on."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.texts: dict[int, str] = {}

    subjects = st.sampled_from("abc")

    @rule(subject=subjects, text=st.sampled_from("12345"))
    def register(self, subject: str, text: str) -> None:
        try:
            schema_id = self.registry.register(subject, text)
        except RegistryError:
            return
        assert self.texts.setdefault(schema_id, text) == text, "an id was given twice"

    @rule(subject=subjects, permanent=st.booleans())
    def delete(self, subject: str, permanent: bool) -> None:
        try:
            self.registry.delete(subject, permanent=permanent)
        except RegistryError:
            return

    @rule(subject=subjects, number=st.integers(1, 4), permanent=st.booleans())
    def delete_version(self, subject: str, number: int, permanent: bool) -> None:
        try:
            self.registry.delete_version(subject, number, permanent=permanent)
        except RegistryError:
            return

    @rule(subject=st.none() | subjects, mode=st.sampled_from([*Mode]))
    def set_mode(self, subject: str | None, mode: Mode) -> None:
        try:
            self.registry.set_mode(subject, mode)
        except RegistryError:
            return

    @invariant()
    def a_registry_that_reads_the_compacted_topic_knows_the_same(self) -> None:
        state, other = self.registry.state, self.registry.compacted()
        assert other.subjects == state.subjects
        assert other.configs == state.configs
        assert other.modes == state.modes
        assert other.highest_id == state.highest_id


TestChanges = Changes.TestCase
