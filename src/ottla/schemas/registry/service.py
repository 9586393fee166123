"""What the registry does with a request: it parses and compares on threads, and writes its decisions as the leader."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from ottla.schemas.compatibility.formats import parse_schema, problems_reading
from ottla.schemas.compatibility.parsed_schema import (
    ParsedSchema,
    ReferencedSchema,
    SchemaError,
)
from ottla.schemas.registry import errors
from ottla.schemas.registry.decisions import (
    AlreadyRegistered,
    CompareWith,
    Decision,
    Registration,
    decide_registration,
    find_registered,
    prepare_registration,
    to_compare,
)
from ottla.schemas.registry.leadership import Leadership
from ottla.schemas.registry.model import Reference, SchemaContent, StoredVersion
from ottla.schemas.registry.schema_log import SchemaLog
from ottla.schemas.registry.state import RegistryState

T = TypeVar("T")

MAX_REFERENCES: Final = 100
MAX_ALL_REFERENCES: Final = 1_000
MAX_REFERENCED_BYTES: Final = 8 * 1024 * 1024
THREADS: Final = 2
_CACHED_SCHEMAS: Final = 500
_CACHED_BYTES: Final = 32 * 1024 * 1024
# So often a registration is compared again because others came first, before it makes them wait.
_OPTIMISTIC_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class GivenSchema:
    """A schema as a request has it."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    schema_id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write, and the offset behind its records; 0 if nothing had to be written."""

    answer: Any
    end_offset: int = 0


class RegistryService:
    """The operations of the API that need more than a look at the state."""

    def __init__(self, schema_log: SchemaLog, leadership: Leadership) -> None:
        self._log = schema_log
        self._leadership = leadership
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ottla-schemas")
        self._parsed = _ParsedSchemas()

    @property
    def state(self) -> RegistryState:
        """What the registry knows now."""
        return self._log.state

    # Schemas

    async def content_of(self, given: GivenSchema, normalize: bool) -> SchemaContent:
        """The canonical form of a schema, or a refusal if it is none."""
        referenced = resolve_references(self.state, given.references)
        parsed = await self.on_thread(lambda: _parse(given.schema_type, given.text, referenced))
        text = await self.on_thread(lambda: parsed.normalized if normalize else parsed.canonical)
        content = SchemaContent(
            given.schema_type, text, given.references, given.metadata, given.rule_set
        )
        if not _is_unicode(content):
            raise errors.RefusedSchemaError(
                "the schema has half of a surrogate pair, which is no character"
            )
        self._parsed.put(content, parsed)
        return content

    async def formatted(self, content: SchemaContent, name: str) -> str:
        """A stored schema in another format."""
        parsed = await self._parse_stored(content)
        try:
            return await self.on_thread(lambda: parsed.formatted(name))
        except SchemaError as error:
            raise errors.bad_request(str(error)) from error

    async def _parse_stored(self, content: SchemaContent) -> ParsedSchema:
        found = self._parsed.get(content)
        if found is None:
            referenced = resolve_references(self.state, content.references)
            found = await self.on_thread(
                lambda: _parse(content.schema_type, content.text, referenced)
            )
            self._parsed.put(content, found)
        return found

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Do work that may take long, so that other requests go on."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # Compatibility

    async def problems(self, content: SchemaContent, comparison: CompareWith) -> list[str]:
        """Why a schema is not compatible with earlier versions; empty if it is."""
        level = comparison.level
        new = await self._parse_stored(content)
        for version in comparison.previous:
            if version.content.schema_type != content.schema_type:
                found = ["Incompatible because of different schema type"]
            else:
                old = await self._parse_stored(version.content)
                found = await self.on_thread(partial(_compare, new, old, level))
            if found:
                return [
                    *found,
                    f"{{oldSchemaVersion: {version.version}}}",
                    f"{{oldSchema: '{version.content.text}'}}",
                    f"{{validateFields: 'false', compatibility: '{level}'}}",
                ]
        return []

    async def problems_with(
        self, subject: str, given: GivenSchema, versions: Sequence[StoredVersion], normalize: bool
    ) -> list[str]:
        """The same, before a registration and by the subject's level."""
        content = await self.content_of(given, normalize)
        return await self.problems(content, to_compare(self.state, subject, content, versions))

    # Looking up and registering

    async def look_up(
        self, subject: str, given: GivenSchema, normalize: bool, with_deleted: bool
    ) -> StoredVersion:
        """The version of the subject that has this schema."""
        content = await self.content_of(given, normalize)
        found = find_registered(self.state, subject, content, with_deleted)
        if found is None:
            await self._log.catch_up()
            found = find_registered(self.state, subject, content, with_deleted)
        if found is not None:
            return found
        if not self.state.has_subject(subject, with_deleted):
            raise errors.subject_not_found(subject)
        raise errors.schema_not_found()

    async def registration_of(
        self, subject: str, given: GivenSchema, normalize: bool
    ) -> Registration:
        """A registration in its canonical form."""
        content = await self.content_of(given, normalize)
        return Registration(subject, content, given.schema_id, given.version)

    def registered(self, registration: Registration) -> StoredVersion | None:
        """The version that has the schema already, as every registry can tell."""
        prepared = prepare_registration(self.state, registration)
        return prepared.version if isinstance(prepared, AlreadyRegistered) else None

    async def register(self, registration: Registration) -> Written:
        """Compare, decide and write, as the leader."""
        # Comparing takes long, so it happens before the lock, and is repeated if the subject has changed meanwhile.
        for _ in range(_OPTIMISTIC_ATTEMPTS):
            prepared = await self._compared(registration)
            if isinstance(prepared, AlreadyRegistered):
                return Written(prepared.version)
            async with self._leadership.lock:
                if prepare_registration(self.state, registration) == prepared:
                    return await self._write(decide_registration(self.state, registration))
        async with self._leadership.lock:
            prepared = await self._compared(registration)
            if isinstance(prepared, AlreadyRegistered):
                return Written(prepared.version)
            return await self._write(decide_registration(self.state, registration))

    async def _compared(self, registration: Registration) -> AlreadyRegistered | CompareWith:
        prepared = prepare_registration(self.state, registration)
        if isinstance(prepared, CompareWith):
            found = await self.problems(registration.content, prepared)
            if found:
                raise errors.incompatible_schema(registration.subject, found)
        return prepared

    async def change(self, decide: Callable[[RegistryState], Decision]) -> Written:
        """Decide and write, as the leader."""
        async with self._leadership.lock:
            if not self._leadership.is_leader:
                raise errors.NotLeaderError
            return await self._write(decide(self.state))

    async def _write(self, decision: Decision) -> Written:
        # Nothing is awaited between the decision and this call: it was made on the state of this writer.
        if not decision.records:
            return Written(decision.answer)
        return Written(decision.answer, await self._leadership.write(decision.records))

    async def catch_up(self) -> None:
        """Read what other registries have written by now."""
        await self._log.catch_up()

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _ParsedSchemas:
    """The schemas that were parsed last."""

    def __init__(self) -> None:
        self._schemas: OrderedDict[bytes, tuple[ParsedSchema, int]] = OrderedDict()
        self._bytes = 0

    def get(self, content: SchemaContent) -> ParsedSchema | None:
        fingerprint = content.fingerprint
        found = self._schemas.get(fingerprint)
        if found is None:
            return None
        self._schemas.move_to_end(fingerprint)
        return found[0]

    def put(self, content: SchemaContent, parsed: ParsedSchema) -> None:
        fingerprint = content.fingerprint
        if fingerprint in self._schemas:
            return
        size = len(content.text)
        self._schemas[fingerprint] = (parsed, size)
        self._bytes += size
        while len(self._schemas) > _CACHED_SCHEMAS or self._bytes > _CACHED_BYTES:
            _, (_, size) = self._schemas.popitem(last=False)
            self._bytes -= size


def _is_unicode(content: SchemaContent) -> bool:
    try:
        json.dumps(content.to_json(), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse(schema_type: str, text: str, references: Sequence[ReferencedSchema]) -> ParsedSchema:
    try:
        return parse_schema(schema_type, text, references)
    except SchemaError as error:
        if str(error).startswith("Invalid schema type"):
            raise errors.RefusedSchemaError(str(error)) from error
        raise errors.RefusedSchemaError(
            f"Invalid schema of type {schema_type}, details: {error}"
        ) from error


def _compare(new: ParsedSchema, old: ParsedSchema, level: Any) -> list[str]:
    try:
        found = problems_reading(new, old, ("new", "old")) if level.new_reads_old else []
        if not found and level.old_reads_new:
            found = problems_reading(old, new, ("old", "new"))
    except SchemaError as error:
        raise errors.RefusedSchemaError(str(error)) from error
    return found


def resolve_references(
    state: RegistryState, references: Iterable[Reference]
) -> list[ReferencedSchema]:
    """The texts of the schemas that are referred to, also indirectly, each after those that it needs."""
    found: dict[str, ReferencedSchema] = {}
    pending = [(reference, False) for reference in reversed(list(references))]
    steps = total_bytes = 0
    while pending:
        reference, are_needed_ones_found = pending.pop()
        steps += 1
        if steps > 2 * MAX_ALL_REFERENCES or total_bytes > MAX_REFERENCED_BYTES:
            raise errors.RefusedSchemaError(
                f"the schema refers to too many others: at most {MAX_ALL_REFERENCES}, "
                f"of {MAX_REFERENCED_BYTES // 1024 // 1024} MiB together"
            )
        if reference.name in found:
            continue
        version = state.referred(reference)
        if version is None:
            raise errors.RefusedSchemaError(
                f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
            )
        if are_needed_ones_found:
            found[reference.name] = ReferencedSchema(reference.name, version.content.text)
            total_bytes += len(version.content.text)
        else:
            pending.append((reference, True))
            pending += [(each, False) for each in reversed(version.content.references)]
    return list(found.values())
