"""The operations of a registry, as exchanges without IO, with their caches."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote
from uuid import UUID

from ottla.schemas.client.caches import BoundedCache
from ottla.schemas.client.exchange import Exchange, Requests
from ottla.schemas.config import RegistryConfig
from ottla.schemas.errors import registry_error
from ottla.schemas.model import (
    CompatibilityResult,
    RegisteredSchema,
    Schema,
    SchemaType,
    SubjectVersion,
)

Version: TypeAlias = int | Literal["latest"]

SERIALIZED = "serialized"
"""The format of Protobuf schemas as a base64 file descriptor."""

_MAX_REFERENCE_DEPTH = 100


class ReferencedSchema(NamedTuple):
    """A schema that another one uses, by the name that the other one gives it."""

    name: str
    schema: Schema


class Operations:
    """What a registry can be asked; ids are immutable, and so cached without an end."""

    def __init__(self, config: RegistryConfig) -> None:
        self._request = Requests(config).request
        capacity = config.max_schemas_per_subject
        self._by_id: BoundedCache[tuple[int | str, str | None], Schema] = BoundedCache(capacity)
        self._by_version: BoundedCache[tuple[str, int, str | None], RegisteredSchema] = (
            BoundedCache(capacity)
        )
        self._known: BoundedCache[tuple[str, Schema, bool], RegisteredSchema] = BoundedCache(
            capacity
        )
        self._latest: BoundedCache[tuple[str, str | None], RegisteredSchema] = BoundedCache(
            capacity, config.latest_cache_ttl_sec
        )
        self.latest_ttl_seconds = config.latest_cache_ttl_sec

    # Schemas

    def register_schema(
        self, subject: str, schema: Schema, normalize: bool
    ) -> Exchange[RegisteredSchema]:
        """Register a schema, or find it if the subject has it."""
        return (
            yield from self._post_schema(
                f"{_subject(subject)}/versions", subject, schema, normalize
            )
        )

    def lookup_schema(
        self, subject: str, schema: Schema, normalize: bool, deleted: bool
    ) -> Exchange[RegisteredSchema]:
        """The subject's version that has this schema."""
        path = _subject(subject)
        if not deleted:
            return (yield from self._post_schema(path, subject, schema, normalize))
        query = {"deleted": True, "normalize": normalize}
        answer = yield from self._request("POST", path, query=query, body=schema.body())
        return _registered(answer, subject, schema)

    def _post_schema(
        self, path: str, subject: str, schema: Schema, normalize: bool
    ) -> Exchange[RegisteredSchema]:
        known = self._known.get((subject, schema, normalize))
        # Registries answer a registration with the id only; a lookup needs the version too.
        if known is not None and (known.version is not None or path.endswith("/versions")):
            return known
        query = {"normalize": True} if normalize else None
        answer = yield from self._request("POST", path, query=query, body=schema.body())
        registered = _registered(answer, subject, schema)
        self._known.put((subject, schema, normalize), registered)
        return registered

    def get_schema(
        self, schema_id: int, subject: str | None, format: str | None
    ) -> Exchange[Schema]:
        """The schema with this id."""
        known = self._by_id.get((schema_id, format))
        if known is not None:
            return known
        query = {"subject": subject, "format": format}
        answer = yield from self._request(
            "GET", f"/schemas/ids/{int(schema_id)}", query=_given(query)
        )
        schema = Schema.of(answer)
        self._by_id.put((schema_id, format), schema)
        return schema

    def get_schema_by_guid(self, guid: UUID, format: str | None) -> Exchange[Schema]:
        """The schema with this GUID."""
        known = self._by_id.get((str(guid), format))
        if known is not None:
            return known
        answer = yield from self._request(
            "GET", f"/schemas/guids/{guid}", query=_given({"format": format})
        )
        schema = Schema.of(answer)
        self._by_id.put((str(guid), format), schema)
        return schema

    def get_version(
        self, subject: str, version: Version, deleted: bool, format: str | None
    ) -> Exchange[RegisteredSchema]:
        """A version of a subject."""
        if version == "latest":
            return (yield from self.get_latest_version(subject, format))
        known = self._by_version.get((subject, version, format))
        if known is not None:
            return known
        query = _given({"deleted": deleted or None, "format": format})
        path = f"{_subject(subject)}/versions/{int(version)}"
        answer = yield from self._request("GET", path, query=query)
        registered = _registered(answer, subject, Schema.of(answer))
        self._by_version.put((subject, version, format), registered)
        return registered

    def get_latest_version(self, subject: str, format: str | None) -> Exchange[RegisteredSchema]:
        """The latest version of a subject, as old as latest.cache.ttl.sec allows."""
        known = self._latest.get((subject, format))
        if known is not None:
            return known
        path = f"{_subject(subject)}/versions/latest"
        answer = yield from self._request("GET", path, query=_given({"format": format}))
        registered = _registered(answer, subject, Schema.of(answer))
        self._latest.put((subject, format), registered)
        return registered

    def resolve_references(
        self, schema: Schema, format: str | None = None
    ) -> Exchange[tuple[ReferencedSchema, ...]]:
        """All schemas that a schema refers to, each behind those that it needs itself."""
        found: dict[str, ReferencedSchema] = {}
        yield from self._collect_references(schema, format, found, 0)
        return tuple(found.values())

    def _collect_references(
        self,
        schema: Schema,
        format: str | None,
        found: dict[str, ReferencedSchema],
        depth: int,
    ) -> Exchange[None]:
        if depth > _MAX_REFERENCE_DEPTH:
            raise registry_error(200, 0, "the references of the schema go round in a circle")
        for reference in schema.references:
            if reference.name in found:
                continue
            answer = yield from self.get_version(
                reference.subject, reference.version, deleted=True, format=format
            )
            yield from self._collect_references(answer.schema, format, found, depth + 1)
            found[reference.name] = ReferencedSchema(reference.name, answer.schema)

    # Subjects and versions

    def get_subjects(self, prefix: str, deleted: bool) -> Exchange[list[str]]:
        """The names of subjects."""
        query = _given({"subjectPrefix": prefix or None, "deleted": deleted or None})
        answer = yield from self._request("GET", "/subjects", query=query)
        return [str(each) for each in answer]

    def get_versions(self, subject: str, deleted: bool) -> Exchange[list[int]]:
        """The numbers of a subject's versions."""
        query = _given({"deleted": deleted or None})
        answer = yield from self._request("GET", f"{_subject(subject)}/versions", query=query)
        return [int(each) for each in answer]

    def get_schema_versions(self, schema_id: int) -> Exchange[list[SubjectVersion]]:
        """The subjects and versions that have the schema with this id."""
        answer = yield from self._request("GET", f"/schemas/ids/{int(schema_id)}/versions")
        return [SubjectVersion(str(each["subject"]), int(each["version"])) for each in answer]

    def get_schema_types(self) -> Exchange[list[str]]:
        """The formats that the registry knows."""
        answer = yield from self._request("GET", "/schemas/types")
        return [str(each) for each in answer]

    def get_referenced_by(self, subject: str, version: Version) -> Exchange[list[int]]:
        """The ids of the schemas that refer to a version."""
        path = f"{_subject(subject)}/versions/{version}/referencedby"
        answer = yield from self._request("GET", path)
        return [int(each) for each in answer]

    def delete_subject(self, subject: str, permanent: bool) -> Exchange[list[int]]:
        """Delete a subject; a permanent deletion deletes it softly first."""
        path = _subject(subject)
        try:
            answer = yield from self._request("DELETE", path)
        except Exception as error:
            # 40404: it is deleted softly already.
            if not (permanent and getattr(error, "error_code", 0) in (40401, 40404)):
                raise
        if permanent:
            answer = yield from self._request("DELETE", path, query={"permanent": True})
        self._forget(subject)
        return [int(each) for each in answer]

    def delete_version(self, subject: str, version: Version, permanent: bool) -> Exchange[int]:
        """Delete a version; a permanent deletion deletes it softly first."""
        path = f"{_subject(subject)}/versions/{version}"
        try:
            answer = yield from self._request("DELETE", path)
        except Exception as error:
            # 40406: it is deleted softly already.
            if not (permanent and getattr(error, "error_code", 0) in (40402, 40406)):
                raise
        if permanent:
            answer = yield from self._request("DELETE", path, query={"permanent": True})
        self._forget(subject)
        return int(answer)

    def _forget(self, subject: str) -> None:
        self._known.drop_where(lambda key: key[0] == subject)
        self._latest.drop_where(lambda key: key[0] == subject)
        self._by_version.drop_where(lambda key: key[0] == subject)

    # Compatibility, config and mode

    def test_compatibility(
        self, subject: str, schema: Schema, version: Version | None, normalize: bool
    ) -> Exchange[CompatibilityResult]:
        """Whether a schema is compatible with a version, or without one with those that the level asks for."""
        path = f"/compatibility{_subject(subject)}/versions"
        if version is not None:
            path = f"{path}/{version}"
        query = _given({"verbose": True, "normalize": normalize or None})
        answer = yield from self._request("POST", path, query=query, body=schema.body())
        messages = tuple(str(each) for each in answer.get("messages") or ())
        return CompatibilityResult(bool(answer["is_compatible"]), messages)

    def get_config(self, subject: str | None, default_to_global: bool) -> Exchange[dict[str, Any]]:
        """The config of a subject, or of all."""
        query = _given({"defaultToGlobal": default_to_global or None})
        answer = yield from self._request("GET", _resource("config", subject), query=query)
        return dict(answer)

    def set_config(self, subject: str | None, config: dict[str, Any]) -> Exchange[dict[str, Any]]:
        """Change the config of a subject, or of all."""
        answer = yield from self._request("PUT", _resource("config", subject), body=config)
        return dict(answer)

    def delete_config(self, subject: str | None) -> Exchange[None]:
        """Return to the default."""
        yield from self._request("DELETE", _resource("config", subject))

    def get_mode(self, subject: str | None, default_to_global: bool) -> Exchange[str]:
        """The mode of a subject, or of all."""
        query = _given({"defaultToGlobal": default_to_global or None})
        answer = yield from self._request("GET", _resource("mode", subject), query=query)
        return str(answer["mode"])

    def set_mode(self, subject: str | None, mode: str, force: bool) -> Exchange[str]:
        """Change the mode of a subject, or of all."""
        query = _given({"force": force or None})
        path = _resource("mode", subject)
        answer = yield from self._request("PUT", path, query=query, body={"mode": mode})
        return str(answer["mode"])

    def delete_mode(self, subject: str | None) -> Exchange[None]:
        """Return to the default."""
        yield from self._request("DELETE", _resource("mode", subject))


def _registered(answer: dict[str, Any], subject: str, schema: Schema) -> RegisteredSchema:
    try:
        version = answer.get("version")
        return RegisteredSchema(
            id=int(answer["id"]),
            schema=schema,
            subject=str(answer.get("subject") or subject),
            version=None if version is None else int(version),
            guid=answer.get("guid"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise registry_error(200, 0, f"the answer has no id: {answer!r}") from error


def _subject(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _resource(kind: str, subject: str | None) -> str:
    return f"/{kind}" if subject is None else f"/{kind}/{quote(subject, safe='')}"


def _given(query: dict[str, Any]) -> dict[str, str | int | bool]:
    return {name: value for name, value in query.items() if value is not None}


def format_to_fetch(schema_type: str) -> str | None:
    """The format in which schemas of this type are asked for."""
    return SERIALIZED if schema_type == SchemaType.PROTOBUF else None
