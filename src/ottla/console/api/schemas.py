"""The subjects of the schema registry, their versions, levels and modes; checking, registering and deleting schemas.

The registry is asked with the console's credentials. So the role in the console decides what a user may do there, and
the topics that a user may see decide which subjects the user sees. Previews compute what a change would do, and are
open to viewers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

from ottla.console.access.roles import Role
from ottla.console.access.visible import Visible
from ottla.console.http.errors import ApiError, bad_request, not_found
from ottla.console.http.routes import Call, Route
from ottla.console.json_layout import json_with_line_breaks
from ottla.console.registry.registry_client import (
    HOW_TO_CONFIGURE,
    NOT_CONFIGURED,
    RegistryClient,
    RegistryHealth,
    registry_problem,
    subject_path,
)
from ottla.console.registry.schema_catalog import (
    CatalogSubject,
    SchemaCatalog,
    SubjectRules,
    level_of,
    mode_of,
)
from ottla.console.registry.schema_difference import SchemaDifference, difference_of
from ottla.console.registry.seen_subjects import sees_subject, used_by
from ottla.schemas.errors import (
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from ottla.schemas.model import Schema, SchemaReference, SchemaType

T = TypeVar("T")

MAX_LIMIT: Final = 500
MAX_VERSIONS: Final = 500
MAX_REFERENCES: Final = 500
MAX_SUBJECT_CHARS: Final = 1_000
MAX_SCHEMA_CHARS: Final = 4 << 20
MAX_NAMED: Final = 100

# The registry


def _registry(call: Call[Any, Any]) -> tuple[RegistryClient, SchemaCatalog]:
    registry, catalog = call.console.registry, call.console.schema_catalog
    if registry is None or catalog is None:
        raise not_found(NOT_CONFIGURED, HOW_TO_CONFIGURE)
    return registry, catalog


@dataclass(frozen=True)
class RegistryState:
    """The registry of this console, and what counts for all subjects."""

    is_configured: bool
    addresses: list[str]
    health: RegistryHealth
    types: list[str]
    compatibility: str | None
    """None if the registry does not tell."""
    mode: str | None
    problems: list[str]


async def registry_state(call: Call[None, None]) -> RegistryState:
    """The registry, whether it answers, and what counts for all subjects."""
    registry = call.console.registry
    if registry is None:
        healthy = RegistryHealth(is_up=True, problem=None, since_ms=None, retry_in_ms=None)
        return RegistryState(
            is_configured=False,
            addresses=[],
            health=healthy,
            types=[],
            compatibility=None,
            mode=None,
            problems=[],
        )
    problems: list[str] = []
    types, config, mode = await asyncio.gather(
        _told(registry, "/schemas/types", problems),
        _told(registry, "/config", problems),
        _told(registry, "/mode", problems),
    )
    return RegistryState(
        is_configured=True,
        addresses=list(registry.addresses),
        health=registry.health,
        types=[str(each) for each in types or SchemaType],
        compatibility=level_of(config),
        mode=mode_of(mode),
        problems=list(dict.fromkeys(problems)),
    )


async def _told(registry: RegistryClient, path: str, problems: list[str]) -> Any:
    try:
        return await registry.ask_or_none(path)
    except SchemaRegistryError as error:
        problems.append(f"the schema registry does not tell {path}: {error.message}")
    except ApiError as error:
        problems.append(error.message)
    return None


# Subjects


@dataclass(frozen=True)
class SubjectsQuery:
    """Which subjects, and in which order; `q` is a part of a name, or of the text of the latest schema."""

    q: str = ""
    where: Literal["name", "text"] = "name"
    type: str = ""
    deleted: bool = False
    """Whether subjects whose versions are all deleted softly are listed, too."""
    sort: Literal["name", "type", "version", "id"] = "name"
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class SubjectRow:
    """A subject. What is None is not known, or is as for all subjects."""

    name: str
    topic: str | None
    """The topic that it is called after, if there is such a topic."""
    part: str | None
    """key or value, if it is called so."""
    is_deleted: bool
    type: str | None
    version: int | None
    """The latest."""
    id: int | None
    version_count: int | None
    compatibility: str | None
    mode: str | None


@dataclass(frozen=True)
class SubjectsPage:
    """A part of the subjects that the user sees."""

    total: int
    counts: dict[str, int]
    """Subjects that are not deleted, by type."""
    deleted_count: int
    unread_count: int
    """Subjects whose latest schema is not known yet: they are found by their names only."""
    rows: list[SubjectRow]
    problems: list[str]


_ORDERS: Final[dict[str, Callable[[CatalogSubject], Any]]] = {
    "name": lambda each: each.name.casefold(),
    "type": lambda each: "" if each.latest is None else each.latest.type,
    "version": lambda each: 0 if each.latest is None else each.latest.version,
    "id": lambda each: 0 if each.latest is None else each.latest.id,
}


async def subjects(call: Call[SubjectsQuery, None]) -> SubjectsPage:
    """The subjects of the registry."""
    query = call.query
    if query.offset < 0 or not 0 < query.limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")
    _, catalog = _registry(call)
    visible = await call.visible()
    every = await _answered(catalog.subjects())
    seen = [each for each in every.values() if sees_subject(visible, each.name)]
    part = query.q.casefold()
    chosen = [
        each
        for each in seen
        if (query.deleted or not each.is_deleted)
        and (not query.type or (each.latest is not None and each.latest.type == query.type))
        and part in _searched(each, query.where)
    ]
    chosen.sort(key=lambda each: each.name)
    chosen.sort(key=_ORDERS[query.sort], reverse=query.order == "desc")
    page = chosen[query.offset :][: query.limit]
    rules = await catalog.rules(each.name for each in page if not each.is_deleted)
    counts: dict[str, int] = {}
    for each in seen:
        if not each.is_deleted and each.latest is not None:
            counts[each.latest.type] = counts.get(each.latest.type, 0) + 1
    return SubjectsPage(
        total=len(chosen),
        counts=counts,
        deleted_count=sum(each.is_deleted for each in seen),
        unread_count=sum(each.latest is None and not each.is_deleted for each in seen),
        rows=[_subject_row(each, rules.get(each.name), visible) for each in page],
        problems=[],
    )


def _searched(subject: CatalogSubject, where: str) -> str:
    if where == "name":
        return subject.name.casefold()
    text = None if subject.latest is None else subject.latest.text
    return "" if text is None else text.casefold()


def _subject_row(
    subject: CatalogSubject, rules: SubjectRules | None, visible: Visible
) -> SubjectRow:
    topic = used_by(subject.name, visible.snapshot.topics)
    latest = subject.latest
    return SubjectRow(
        name=subject.name,
        topic=None if topic is None else topic.topic,
        part=None if topic is None else topic.part,
        is_deleted=subject.is_deleted,
        type=None if latest is None else latest.type,
        version=None if latest is None else latest.version,
        id=None if latest is None else latest.id,
        version_count=None if rules is None else rules.version_count,
        compatibility=None if rules is None else rules.compatibility,
        mode=None if rules is None else rules.mode,
    )


# One subject


@dataclass(frozen=True)
class SubjectQuery:
    """A subject; in the query, because it may have any characters."""

    name: str


@dataclass(frozen=True)
class SubjectDetail:
    """A subject and the numbers of its versions."""

    name: str
    topic: str | None
    part: str | None
    versions: list[int]
    """The newest first."""
    deleted_versions: list[int]
    """Those that are deleted softly: their ids still have schemas."""
    version_count: int
    compatibility: str | None
    """Its own level; None: that of all subjects."""
    default_compatibility: str | None
    mode: str | None
    default_mode: str | None


async def subject(call: Call[SubjectQuery, None]) -> SubjectDetail:
    """One subject."""
    registry, _ = _registry(call)
    name = call.query.name
    visible = await _seen(call, name)
    live, every = await _answered(_versions(registry, name))
    if not every:
        raise _no_subject(name)
    own, default, mode, default_mode = await _answered(
        _together(
            registry.ask_or_none(_config_path(name)),
            registry.ask_or_none("/config"),
            registry.ask_or_none(_mode_path(name)),
            registry.ask_or_none("/mode"),
        )
    )
    topic = used_by(name, visible.snapshot.topics)
    deleted = sorted(set(every) - set(live), reverse=True)
    return SubjectDetail(
        name=name,
        topic=None if topic is None else topic.topic,
        part=None if topic is None else topic.part,
        versions=sorted(live, reverse=True)[:MAX_VERSIONS],
        deleted_versions=deleted[:MAX_VERSIONS],
        version_count=len(live),
        compatibility=level_of(own),
        default_compatibility=level_of(default),
        mode=mode_of(mode),
        default_mode=mode_of(default_mode),
    )


async def _versions(registry: RegistryClient, name: str) -> tuple[list[int], list[int]]:
    """The versions that are there, and those included that are deleted softly."""
    path = subject_path(name, "versions")
    live = await registry.ask_or_none(path) or []
    try:
        every = await registry.ask_or_none(path, {"deleted": True}) or []
    except SchemaRegistryError:
        every = live
    numbers = [int(each) for each in live]
    return numbers, sorted({*numbers, *(int(each) for each in every)})


async def _together(*asking: Any) -> list[Any]:
    return list(await asyncio.gather(*asking))


def _config_path(name: str) -> str:
    return subject_path(name).replace("/subjects/", "/config/", 1)


def _mode_path(name: str) -> str:
    return subject_path(name).replace("/subjects/", "/mode/", 1)


async def _seen(call: Call[Any, Any], name: str) -> Visible:
    """What the user may see; not_found for a subject that is hidden from it."""
    if not 0 < len(name) <= MAX_SUBJECT_CHARS:
        raise bad_request(f"a subject has 1 to {MAX_SUBJECT_CHARS} characters")
    visible = await call.visible()
    if not sees_subject(visible, name):
        raise _no_subject(name)
    return visible


def _no_subject(name: str) -> ApiError:
    return not_found(f"there is no subject {name!r}", "it was deleted, or you may not see it")


async def _answered(asking: Awaitable[T]) -> T:
    """What the registry answers; its refusals as answers for the browser."""
    try:
        return await asking
    except SchemaRegistryError as error:
        raise registry_problem(error) from error


# Versions


@dataclass(frozen=True)
class VersionQuery:
    """A version of a subject; 0 is the latest."""

    subject: str
    version: int = 0


@dataclass(frozen=True)
class Reference:
    """A schema that a schema uses, by the name that it has there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SubjectPlace:
    """A version of a subject."""

    subject: str
    version: int


@dataclass(frozen=True)
class SchemaView:
    """A schema as the registry has it."""

    id: int
    type: str
    text: str
    """As it was registered."""
    pretty: str
    """With line breaks, where the text is JSON."""
    references: list[Reference]
    hidden_reference_count: int
    """References to subjects that the user may not see."""


@dataclass(frozen=True)
class VersionDetail:
    """A version of a subject."""

    subject: str
    version: int
    guid: str | None
    is_deleted: bool
    schema: SchemaView
    same_id: list[SubjectPlace]
    """Other subjects and versions that have the same schema."""
    referenced_by: list[SubjectPlace]
    referenced_by_count: int
    """How many schemas use it, those included that the user may not see."""


async def version(call: Call[VersionQuery, None]) -> VersionDetail:
    """A version of a subject, with what uses it."""
    registry, _ = _registry(call)
    name = call.query.subject
    visible = await _seen(call, name)
    return await _answered(_version_detail(registry, visible, name, call.query.version))


async def _version_detail(
    registry: RegistryClient, visible: Visible, name: str, number: int
) -> VersionDetail:
    answer, is_deleted = await _version_answer(registry, name, number)
    found = int(answer["version"])
    schema = _schema_view(answer, visible)
    same, users = await asyncio.gather(
        registry.ask_or_none(f"/schemas/ids/{schema.id}/versions"),
        _referenced_by(registry, name, found),
    )
    others = [each for each in _places(same) if each != SubjectPlace(name, found)]
    return VersionDetail(
        subject=name,
        version=found,
        guid=answer.get("guid"),
        is_deleted=is_deleted,
        schema=schema,
        same_id=[each for each in others if sees_subject(visible, each.subject)][:MAX_NAMED],
        referenced_by=[each for each in users.places if sees_subject(visible, each.subject)],
        referenced_by_count=users.count,
    )


async def _version_answer(
    registry: RegistryClient, name: str, number: int
) -> tuple[Mapping[str, Any], bool]:
    path = subject_path(name, "versions", number if number > 0 else "latest")
    answer = await registry.ask_or_none(path)
    if answer is not None:
        return answer, False
    if number > 0:
        answer = await registry.ask_or_none(path, {"deleted": True})
    if answer is None:
        wanted = f"version {number}" if number > 0 else "version"
        raise not_found(f"{name} has no {wanted}", "it was deleted")
    return answer, True


async def _id_of_version(registry: RegistryClient, name: str, number: int) -> int | None:
    """The id of its schema; some registries do not tell it of a version that is deleted softly."""
    try:
        answer, _ = await _version_answer(registry, name, number)
    except ApiError as error:
        if error.status is not HTTPStatus.NOT_FOUND:
            raise
        return None
    return int(answer["id"])


@dataclass(frozen=True)
class _Users:
    places: list[SubjectPlace]
    count: int


async def _referenced_by(registry: RegistryClient, name: str, number: int) -> _Users:
    """The schemas that refer to a version; some registries do not tell."""
    try:
        ids = await registry.ask_or_none(subject_path(name, "versions", number, "referencedby"))
    except SchemaRegistryError:
        ids = None
    ids = [int(each) for each in ids or ()]
    found = await asyncio.gather(
        *(registry.ask_or_none(f"/schemas/ids/{each}/versions") for each in ids[:MAX_NAMED])
    )
    places = [place for each in found for place in _places(each)]
    return _Users(places[:MAX_NAMED], len(ids))


def _places(answer: Any) -> list[SubjectPlace]:
    return [SubjectPlace(str(each["subject"]), int(each["version"])) for each in answer or ()]


def _schema_view(answer: Mapping[str, Any], visible: Visible, id: int | None = None) -> SchemaView:
    schema = Schema.of(answer)
    seen = [each for each in schema.references if sees_subject(visible, each.subject)]
    return SchemaView(
        id=int(answer["id"]) if id is None else id,
        type=schema.type,
        text=schema.text,
        pretty=_pretty(schema),
        references=[Reference(each.name, each.subject, each.version) for each in seen],
        hidden_reference_count=len(schema.references) - len(seen),
    )


def _pretty(schema: Schema) -> str:
    if schema.type == SchemaType.PROTOBUF:
        return schema.text
    return json_with_line_breaks(schema.text) or schema.text


# By id


@dataclass(frozen=True)
class SchemaIdQuery:
    """The id of a schema, which records carry."""

    id: int


@dataclass(frozen=True)
class SchemaOfId:
    """The schema with an id, and who has it."""

    schema: SchemaView
    places: list[SubjectPlace]


async def schema_by_id(call: Call[SchemaIdQuery, None]) -> SchemaOfId:
    """The schema with an id."""
    registry, _ = _registry(call)
    visible = await call.visible()
    number = call.query.id
    missing = not_found(
        f"there is no schema with the id {number}", "it was deleted for good, or you may not see it"
    )
    if number < 0:
        raise missing
    answer = await _answered(registry.ask_or_none(f"/schemas/ids/{number}"))
    if answer is None:
        raise missing
    path = f"/schemas/ids/{number}/versions"
    places = _places(await _answered(registry.ask_or_none(path)))
    deleted = _places(await _answered(_with_deleted(registry, path)))
    seen = [each for each in places if sees_subject(visible, each.subject)]
    if not (visible.is_everything or any(sees_subject(visible, each.subject) for each in deleted)):
        raise missing
    return SchemaOfId(_schema_view(answer, visible, number), seen[:MAX_NAMED])


async def _with_deleted(registry: RegistryClient, path: str) -> Any:
    try:
        return await registry.ask_or_none(path, {"deleted": True})
    except SchemaRegistryError:
        return await registry.ask_or_none(path)


# Difference


@dataclass(frozen=True)
class DifferenceQuery:
    """Two versions of a subject."""

    subject: str
    old: int
    new: int


async def difference(call: Call[DifferenceQuery, None]) -> SchemaDifference:
    """The lines in which two versions differ, after both were laid out alike."""
    registry, _ = _registry(call)
    query = call.query
    await _seen(call, query.subject)
    if query.old < 1 or query.new < 1:
        raise bad_request("old and new are numbers of versions")
    (old, _), (new, _) = await _answered(
        _together(
            _version_answer(registry, query.subject, query.old),
            _version_answer(registry, query.subject, query.new),
        )
    )
    before, after = _pretty(Schema.of(old)), _pretty(Schema.of(new))
    return await asyncio.to_thread(difference_of, before, after)


# Check and register


@dataclass(frozen=True)
class CheckBody:
    """A schema that may become the next version of a subject."""

    subject: str
    text: str
    type: str = "AVRO"
    references: list[Reference] = field(default_factory=list)
    normalize: bool = False


@dataclass(frozen=True)
class RegisterBody:
    """A schema to register; a preview checks it."""

    subject: str
    text: str
    type: str = "AVRO"
    references: list[Reference] = field(default_factory=list)
    normalize: bool = False
    preview: bool = True


@dataclass(frozen=True)
class CheckResult:
    """What the registry says of a schema before it is registered."""

    subject: str
    is_valid: bool
    """Whether the registry can read it."""
    is_compatible: bool
    """With what the level of the subject asks for."""
    messages: list[str]
    """The registry's reasons, in its words."""
    compatibility: str | None
    """The level that counts for the subject."""
    is_new_subject: bool
    compared_versions: list[int]
    registered_version: int | None
    """The version that has this schema already: registering it again changes nothing."""
    registered_id: int | None
    next_version: int
    topic: str | None
    is_refused_by_mode: str | None
    """The mode, if it lets nothing be registered."""


async def check(call: Call[None, CheckBody]) -> CheckResult:
    """Whether a schema could become the next version; changes nothing."""
    return await _check(call, call.body)


async def _check(call: Call[Any, Any], body: CheckBody | RegisterBody) -> CheckResult:
    registry, _ = _registry(call)
    visible = await _seen(call, body.subject)
    schema = _schema_of(visible, body)
    return await _answered(_checked(registry, visible, schema, body))


def _schema_of(visible: Visible, body: CheckBody | RegisterBody) -> Schema:
    if not body.text.strip():
        raise bad_request("the schema is missing")
    if len(body.text) > MAX_SCHEMA_CHARS:
        raise bad_request(f"the schema has more than {MAX_SCHEMA_CHARS} characters")
    if len(body.references) > MAX_REFERENCES:
        raise bad_request(f"a schema can refer to {MAX_REFERENCES} others")
    for each in body.references:
        if not sees_subject(visible, each.subject):
            raise _no_subject(each.subject)
    references = tuple(
        SchemaReference(each.name, each.subject, each.version) for each in body.references
    )
    return Schema(body.text, body.type, references)


async def _checked(
    registry: RegistryClient, visible: Visible, schema: Schema, body: CheckBody | RegisterBody
) -> CheckResult:
    name = body.subject
    query = {"normalize": True} if body.normalize else {}
    (live, every), level, mode = await asyncio.gather(
        _versions(registry, name), _level_in_scope(registry, name), _mode_in_scope(registry, name)
    )
    is_valid = is_compatible = True
    messages: list[str] = []
    registered: Mapping[str, Any] | None = None
    try:
        registered = await _look_up(registry, name, schema, query)
        if live:
            answer = await registry.ask(
                "POST",
                f"/compatibility{subject_path(name, 'versions')}",
                query={"verbose": True, **query},
                body=schema.body(),
            )
            is_compatible = bool(answer["is_compatible"])
            messages = [str(each) for each in answer.get("messages") or ()]
    except InvalidSchemaError as error:
        is_valid = is_compatible = False
        messages = [error.message]
    topic = used_by(name, visible.snapshot.topics)
    return CheckResult(
        subject=name,
        is_valid=is_valid,
        is_compatible=is_compatible,
        messages=messages[:MAX_NAMED],
        compatibility=level,
        is_new_subject=not live,
        compared_versions=_compared(live, level),
        registered_version=None if registered is None else int(registered["version"]),
        registered_id=None if registered is None else int(registered["id"]),
        next_version=max(every, default=0) + 1,
        topic=None if topic is None else topic.topic,
        is_refused_by_mode=mode if mode is not None and mode.startswith("READONLY") else None,
    )


def _compared(live: list[int], level: str | None) -> list[int]:
    if level in (None, "NONE"):
        return []
    newest = sorted(live, reverse=True)
    return newest[:MAX_NAMED] if "TRANSITIVE" in (level or "") else newest[:1]


async def _look_up(
    registry: RegistryClient, name: str, schema: Schema, query: Mapping[str, bool]
) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = await registry.ask(
            "POST", subject_path(name), query=query, body=schema.body()
        )
    except SchemaNotFoundError:
        return None
    return found


async def _level_in_scope(registry: RegistryClient, name: str) -> str | None:
    own = level_of(await registry.ask_or_none(_config_path(name)))
    return own or level_of(await registry.ask_or_none("/config"))


async def _mode_in_scope(registry: RegistryClient, name: str) -> str | None:
    try:
        own = mode_of(await registry.ask_or_none(_mode_path(name)))
        return own or mode_of(await registry.ask_or_none("/mode"))
    except SchemaRegistryError:
        return None


@dataclass(frozen=True)
class RegisterAnswer:
    """What the registry says of the schema, and what it is registered as."""

    check: CheckResult
    id: int | None = None
    version: int | None = None


async def register(call: Call[None, RegisterBody]) -> RegisterAnswer:
    """Register a schema as the next version of a subject."""
    body = call.body
    registry, catalog = _registry(call)
    checked = await _check(call, body)
    if body.preview:
        return RegisterAnswer(checked)
    visible = await _seen(call, body.subject)
    schema = _schema_of(visible, body)
    query = {"normalize": True} if body.normalize else {}

    async def write() -> tuple[int, int | None]:
        path = subject_path(body.subject, "versions")
        answer = await registry.ask("POST", path, query=query, body=schema.body())
        found = await _look_up(registry, body.subject, schema, query)
        return int(answer["id"]), None if found is None else int(found["version"])

    try:
        id, number = await _answered(write())
    finally:
        catalog.forget(body.subject)
    return RegisterAnswer(checked, id, number)


# Delete


@dataclass(frozen=True)
class DeleteBody:
    """A subject to delete, or one version of it; softly, so that its id keeps its schema, or for good."""

    subject: str
    version: int | None = None
    permanent: bool = False
    preview: bool = True


@dataclass(frozen=True)
class DeletePlan:
    """What a deletion would do, and who uses what it deletes."""

    subject: str
    permanent: bool
    versions: list[int]
    """That would be deleted."""
    softly_deleted: list[int]
    """Those among them that are deleted softly already."""
    ids: list[int]
    topic: str | None
    record_count: int | None
    """In the topic that the subject is called after."""
    groups: list[str]
    """That read the topic."""
    referenced_by: list[SubjectPlace]
    referenced_by_count: int
    """Schemas that refer to what would be deleted: the registry refuses."""
    warnings: list[str]


@dataclass(frozen=True)
class DeleteAnswer:
    """The plan, and the versions that were deleted."""

    plan: DeletePlan
    deleted: list[int] | None = None


async def delete(call: Call[None, DeleteBody]) -> DeleteAnswer:
    """Delete a subject or a version of it."""
    body = call.body
    registry, catalog = _registry(call)
    visible = await _seen(call, body.subject)
    plan = await _answered(_delete_plan(registry, visible, body))
    if body.preview:
        return DeleteAnswer(plan)
    try:
        deleted = await _answered(_delete(registry, body, plan))
    finally:
        catalog.forget(body.subject)
    return DeleteAnswer(plan, deleted)


async def _delete_plan(registry: RegistryClient, visible: Visible, body: DeleteBody) -> DeletePlan:
    live, every = await _versions(registry, body.subject)
    candidates = every if body.permanent else live
    versions = [each for each in candidates if body.version in (None, each)]
    if not versions:
        if body.version in every:
            raise bad_request(f"version {body.version} of {body.subject} is deleted softly already")
        raise (
            _no_subject(body.subject)
            if not every
            else not_found(
                f"{body.subject} has no version {body.version}"
                if body.version is not None
                else f"all versions of {body.subject} are deleted softly already"
            )
        )
    some = versions[-MAX_NAMED:]
    ids = await asyncio.gather(*(_id_of_version(registry, body.subject, each) for each in some))
    users = await asyncio.gather(*(_referenced_by(registry, body.subject, each) for each in some))
    found = used_by(body.subject, visible.snapshot.topics)
    topic = None if found is None else visible.snapshot.topics[found.topic]
    groups = [] if topic is None else visible.snapshot.groups_of_topic.get(topic.name, ())
    used = sum(each.count for each in users)
    return DeletePlan(
        subject=body.subject,
        permanent=body.permanent,
        versions=versions,
        softly_deleted=sorted(set(versions) - set(live)),
        ids=sorted({each for each in ids if each is not None}),
        topic=None if topic is None else topic.name,
        record_count=None if topic is None else topic.record_count,
        groups=list(groups)[:MAX_NAMED],
        referenced_by=[
            place for each in users for place in each.places if sees_subject(visible, place.subject)
        ][:MAX_NAMED],
        referenced_by_count=used,
        warnings=_warnings(body, used),
    )


def _warnings(body: DeleteBody, used: int) -> list[str]:
    found = []
    if used:
        found.append(f"{used} other schemas refer to it: the registry will refuse")
    if body.permanent:
        found.append(
            "records that carry these ids cannot be read any more, unless another subject has the same schemas; "
            "this cannot be undone"
        )
    else:
        found.append(
            "records that carry these ids can still be read; producers that registered the schema themselves "
            "register it again"
        )
    return found


async def _delete(registry: RegistryClient, body: DeleteBody, plan: DeletePlan) -> list[int]:
    """A registry deletes for good only what is deleted softly."""
    if body.version is None:
        path = subject_path(body.subject)
        live = set(plan.versions) - set(plan.softly_deleted)
        deleted = await registry.ask("DELETE", path) if live else []
        if body.permanent:
            deleted = await registry.ask("DELETE", path, query={"permanent": True})
        return [int(each) for each in deleted]
    path = subject_path(body.subject, "versions", body.version)
    if body.version not in plan.softly_deleted:
        await registry.ask("DELETE", path)
    if body.permanent:
        await registry.ask("DELETE", path, query={"permanent": True})
    return [body.version]


# Levels and modes


@dataclass(frozen=True)
class LevelBody:
    """The level of a subject, or of all if there is none; `level` None: as for all subjects."""

    subject: str | None
    level: (
        Literal[
            "BACKWARD",
            "BACKWARD_TRANSITIVE",
            "FORWARD",
            "FORWARD_TRANSITIVE",
            "FULL",
            "FULL_TRANSITIVE",
            "NONE",
        ]
        | None
    )
    preview: bool = True


@dataclass(frozen=True)
class ModeBody:
    """The mode of a subject, or of all if there is none; `mode` None: as for all subjects."""

    subject: str | None
    mode: Literal["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"] | None
    preview: bool = True


@dataclass(frozen=True)
class RuleChange:
    """What counts now, and what would."""

    subject: str | None
    old: str | None
    """Its own; None: as for all subjects."""
    new: str | None
    default: str | None
    """That of all subjects."""
    is_done: bool


async def set_compatibility(call: Call[None, LevelBody]) -> RuleChange:
    """Change the level by which new versions are compared with older ones."""
    body = call.body
    return await _set_rule(
        call, _Rule("/config", _config_path, level_of, "compatibility"), body.subject, body.level
    )


async def set_mode(call: Call[None, ModeBody]) -> RuleChange:
    """Change whether schemas may be registered."""
    body = call.body
    return await _set_rule(
        call, _Rule("/mode", _mode_path, mode_of, "mode"), body.subject, body.mode
    )


@dataclass(frozen=True)
class _Rule:
    """Where a registry keeps a level or a mode."""

    path: str
    path_of: Callable[[str], str]
    value_of: Callable[[Any], str | None]
    name: str


async def _set_rule(
    call: Call[None, LevelBody] | Call[None, ModeBody],
    rule: _Rule,
    subject: str | None,
    value: str | None,
) -> RuleChange:
    registry, catalog = _registry(call)
    if subject is not None:
        await _seen(call, subject)
    elif value is None:
        raise bad_request(f"say which {rule.name} all subjects get")
    default = rule.value_of(await _answered(registry.ask_or_none(rule.path)))
    path = rule.path if subject is None else rule.path_of(subject)
    old = default
    if subject is not None:
        old = rule.value_of(await _answered(registry.ask_or_none(path)))
    if not call.body.preview and old != value:
        try:
            if value is None:
                await _answered(registry.ask("DELETE", path))
            else:
                await _answered(registry.ask("PUT", path, body={rule.name: value}))
        finally:
            catalog.forget(subject)
    return RuleChange(subject, old, value, default, is_done=not call.body.preview)


def _is_preview(call: Call[Any, Any]) -> bool:
    return bool(call.body.preview)


ROUTES: Final[list[Route]] = [
    Route("GET", "/api/schemas/registry", registry_state, "The schema registry"),
    Route("GET", "/api/schemas", subjects, "Subjects of the schema registry", query=SubjectsQuery),
    Route("GET", "/api/schemas/subject", subject, "One subject", query=SubjectQuery),
    Route("GET", "/api/schemas/version", version, "A version of a subject", query=VersionQuery),
    Route(
        "GET",
        "/api/schemas/difference",
        difference,
        "What changed between two versions",
        query=DifferenceQuery,
    ),
    Route("GET", "/api/schemas/id", schema_by_id, "The schema with an id", query=SchemaIdQuery),
    Route(
        "POST",
        "/api/schemas/check",
        check,
        "Check whether a schema could become the next version",
        body=CheckBody,
        is_preview=lambda call: True,
    ),
    Route(
        "POST",
        "/api/schemas/register",
        register,
        "Register a schema",
        body=RegisterBody,
        role=Role.ADMIN,
        is_preview=_is_preview,
    ),
    Route(
        "POST",
        "/api/schemas/delete",
        delete,
        "Delete a subject or a version",
        body=DeleteBody,
        role=Role.ADMIN,
        is_preview=_is_preview,
    ),
    Route(
        "POST",
        "/api/schemas/compatibility",
        set_compatibility,
        "Change a compatibility level",
        body=LevelBody,
        role=Role.ADMIN,
        is_preview=_is_preview,
    ),
    Route(
        "POST",
        "/api/schemas/mode",
        set_mode,
        "Change a mode",
        body=ModeBody,
        role=Role.ADMIN,
        is_preview=_is_preview,
    ),
]
