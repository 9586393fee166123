"""The routes of the REST API: each answers a request from the state, or hands it to the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ottla.schemas.compatibility.formats import SCHEMA_TYPES
from ottla.schemas.registry import decisions, errors, requests
from ottla.schemas.registry.decisions import find_version
from ottla.schemas.registry.model import Mode, StoredVersion, SubjectConfig
from ottla.schemas.registry.requests import Parameters
from ottla.schemas.registry.service import GivenSchema, RegistryService, Written
from ottla.schemas.registry.state import RegistryState
from ottla.version import VERSION

# The number of stored versions that GET /schemas returns when no limit is given.
MAX_LISTED: Final = 10_000
# Bodies from this size on are read on a thread.
LARGE_BYTES: Final = 64 * 1024
_EVERYTHING: Final = ":*:"


@dataclass(frozen=True, slots=True)
class Call:
    """A request: the variable parts of its path, its query and its body."""

    parts: tuple[str, ...]
    query: Parameters
    body: bytes

    @property
    def subject(self) -> str:
        """The first variable part, as a subject."""
        return self.parts[0]


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """What /v1/metadata tells."""

    kafka_cluster: str
    group: str


class Text(str):
    """An answer that is text, not JSON."""


Read: TypeAlias = Callable[["Api", Call], Awaitable[Any]]
Write: TypeAlias = Callable[["Api", Call], Awaitable[Written]]


class Api:
    """The handlers of all routes."""

    def __init__(self, service: RegistryService, identity: ClusterIdentity) -> None:
        self._service = service
        self._identity = identity

    @property
    def state(self) -> RegistryState:
        """What the registry knows now."""
        return self._service.state

    # Schemas

    async def schema_types(self, call: Call) -> Any:
        """GET /schemas/types"""
        return list(SCHEMA_TYPES)

    async def schemas(self, call: Call) -> Any:
        """GET /schemas"""
        prefix = _prefix(call)
        with_deleted = call.query.flag("deleted")
        found: list[StoredVersion] = []
        for subject in self.state.subject_names():
            if not subject.startswith(prefix):
                continue
            state = self.state
            versions = state.all_versions(subject) if with_deleted else state.live_versions(subject)
            found += versions[-1:] if call.query.flag("latestOnly") else versions
        return [_version_json(each) for each in call.query.page(found)[:MAX_LISTED]]

    async def _with_id(self, call: Call) -> list[StoredVersion]:
        number = requests.schema_id(call.parts[0])
        found = self.state.with_id(number)
        if not found:
            # Another registry may have given the id a moment ago.
            await self._service.catch_up()
            found = self.state.with_id(number)
        if not found:
            raise errors.schema_not_found(number)
        return found

    async def schema_by_id(self, call: Call) -> Any:
        """GET /schemas/ids/{id}"""
        found = await self._with_id(call)
        version = found[0]
        subject = call.query.text("subject")
        fields = version.content.to_json()
        fields["schema"] = await self._formatted(call, version)
        if subject:
            own = next((each for each in found if each.subject == subject), version)
            fields |= {"subject": own.subject, "version": own.version}
        if call.query.flag("fetchMaxId"):
            fields["maxId"] = self.state.highest_id
        return fields

    async def schema_text_by_id(self, call: Call) -> Any:
        """GET /schemas/ids/{id}/schema"""
        return Text(await self._formatted(call, (await self._with_id(call))[0]))

    async def subjects_by_id(self, call: Call) -> Any:
        """GET /schemas/ids/{id}/subjects"""
        with_deleted = call.query.flag("deleted")
        found = await self._with_id(call)
        names = {each.subject: None for each in found if with_deleted or not each.is_deleted}
        return call.query.page(list(names))

    async def versions_by_id(self, call: Call) -> Any:
        """GET /schemas/ids/{id}/versions"""
        with_deleted = call.query.flag("deleted")
        subject = call.query.text("subject")
        found = [
            {"subject": each.subject, "version": each.version}
            for each in await self._with_id(call)
            if (with_deleted or not each.is_deleted) and subject in ("", each.subject)
        ]
        return call.query.page(found)

    async def _formatted(self, call: Call, version: StoredVersion) -> str:
        name = call.query.text("format").strip()
        if not name:
            return version.content.text
        return await self._service.formatted(version.content, name)

    # Subjects

    async def subjects(self, call: Call) -> Any:
        """GET /subjects"""
        prefix = _prefix(call)
        deleted_only = call.query.flag("deletedOnly")
        with_deleted = call.query.flag("deleted")
        found = []
        for subject in self.state.subject_names():
            is_live = self.state.has_subject(subject, False)
            wanted = not is_live if deleted_only else is_live or with_deleted
            if wanted and subject.startswith(prefix):
                found.append(subject)
        return call.query.page(found)

    async def versions(self, call: Call) -> Any:
        """GET /subjects/{subject}/versions"""
        deleted_only = call.query.flag("deletedOnly")
        with_deleted = call.query.flag("deleted") or deleted_only
        if not self.state.has_subject(call.subject, with_deleted):
            raise errors.subject_not_found(call.subject)
        negative = call.query.flag("deletedAsNegative")
        numbers = []
        for version in self.state.all_versions(call.subject):
            if version.is_deleted and negative:
                numbers.append(-version.version)
            elif version.is_deleted == deleted_only or (with_deleted and not deleted_only):
                numbers.append(version.version)
        return call.query.page(numbers)

    def _version(self, call: Call, with_deleted: bool) -> StoredVersion:
        number = requests.version_number(call.parts[1])
        return find_version(self.state, call.subject, number, with_deleted)

    async def version(self, call: Call) -> Any:
        """GET /subjects/{subject}/versions/{version}"""
        found = self._version(call, call.query.flag("deleted"))
        return {**_version_json(found), "schema": await self._formatted(call, found)}

    async def version_text(self, call: Call) -> Any:
        """GET /subjects/{subject}/versions/{version}/schema"""
        return Text(await self._formatted(call, self._version(call, call.query.flag("deleted"))))

    async def referenced_by(self, call: Call) -> Any:
        """GET /subjects/{subject}/versions/{version}/referencedby"""
        place = self._version(call, True).place
        referrers = self.state.referrers(place, call.query.flag("deleted"))
        return call.query.page(list(dict.fromkeys(each.schema_id for each in referrers)))

    async def latest_with_metadata(self, call: Call) -> Any:
        """GET /subjects/{subject}/metadata"""
        raise errors.bad_request("Look-ups by metadata are not supported by this registry")

    async def _given(self, call: Call) -> GivenSchema:
        if len(call.body) < LARGE_BYTES:
            return requests.given_schema(call.body)
        return await self._service.on_thread(lambda: requests.given_schema(call.body))

    def _normalizes(self, call: Call) -> bool:
        asked = call.query.flag("normalize")
        return asked or bool(self.state.config_in_scope(call.subject).normalize)

    async def look_up(self, call: Call) -> Any:
        """POST /subjects/{subject}"""
        given = await self._given(call)
        with_deleted = call.query.flag("deleted")
        normalize = self._normalizes(call)
        found = await self._service.look_up(call.subject, given, normalize, with_deleted)
        return {**_version_json(found), "schema": await self._formatted(call, found)}

    async def find_registered(self, call: Call) -> Written | None:
        """The answer to a registration of what is registered already, which every registry may give."""
        given = await self._given(call)
        subject = requests.check_subject(call.subject)
        try:
            registration = await self._service.registration_of(
                subject, given, self._normalizes(call)
            )
        except errors.RefusedSchemaError:
            if not given.references:
                raise
            # What it refers to may have been registered at another registry a moment ago.
            await self._service.catch_up()
            registration = await self._service.registration_of(
                subject, given, self._normalizes(call)
            )
        found = self._service.registered(registration)
        return None if found is None else Written({"id": found.schema_id})

    async def register(self, call: Call) -> Written:
        """POST /subjects/{subject}/versions"""
        subject = requests.check_subject(call.subject)
        given = await self._given(call)
        registration = await self._service.registration_of(subject, given, self._normalizes(call))
        written = await self._service.register(registration)
        return Written({"id": written.answer.schema_id}, written.end_offset)

    async def delete_subject(self, call: Call) -> Written:
        """DELETE /subjects/{subject}"""
        permanent = call.query.flag("permanent")
        return await self._service.change(
            lambda state: decisions.decide_subject_deletion(state, call.subject, permanent)
        )

    async def delete_version(self, call: Call) -> Written:
        """DELETE /subjects/{subject}/versions/{version}"""
        number = requests.version_number(call.parts[1])
        permanent = call.query.flag("permanent")
        return await self._service.change(
            lambda state: decisions.decide_version_deletion(state, call.subject, number, permanent)
        )

    # Compatibility

    async def compare_with_version(self, call: Call) -> Any:
        """POST /compatibility/subjects/{subject}/versions/{version}"""
        number = requests.version_number(call.parts[1])
        if number == decisions.LATEST:
            versions = self.state.live_versions(call.subject)[-1:]
        else:
            try:
                versions = [find_version(self.state, call.subject, number, False)]
            except errors.RegistryError:
                raise errors.version_not_found(number) from None
        return await self._compared(call, versions)

    async def compare_with_all(self, call: Call) -> Any:
        """POST /compatibility/subjects/{subject}/versions"""
        return await self._compared(call, self.state.live_versions(call.subject))

    async def _compared(self, call: Call, versions: list[StoredVersion]) -> Any:
        given = await self._given(call)
        is_verbose = call.query.flag("verbose")
        try:
            found = await self._service.problems_with(
                call.subject, given, versions, self._normalizes(call)
            )
        except errors.RefusedSchemaError as error:
            if not is_verbose:
                raise
            found = [error.message]
        answer: dict[str, Any] = {"is_compatible": not found}
        if is_verbose:
            answer["messages"] = found
        return answer

    # Configuration

    async def config(self, call: Call) -> Any:
        """GET /config"""
        return self.state.config_in_scope(None).to_json()

    async def subject_config(self, call: Call) -> Any:
        """GET /config/{subject}"""
        if call.query.flag("defaultToGlobal"):
            return self.state.config_in_scope(call.subject).to_json()
        own = self.state.configs.get(call.subject)
        if own is None:
            raise errors.config_not_found(call.subject)
        return own.to_json()

    async def set_config(self, call: Call) -> Written:
        """PUT /config and PUT /config/{subject}"""
        subject = requests.check_subject(call.subject) if call.parts else None
        config = requests.given_config(call.body)
        written = await self._service.change(
            lambda state: decisions.decide_config(state, subject, config)
        )
        return Written(_update_json(written.answer), written.end_offset)

    async def delete_config(self, call: Call) -> Written:
        """DELETE /config and DELETE /config/{subject}"""
        subject = call.subject if call.parts else None
        written = await self._service.change(
            lambda state: decisions.decide_config_deletion(state, subject)
        )
        return Written(written.answer.to_json(), written.end_offset)

    # Modes

    async def mode(self, call: Call) -> Any:
        """GET /mode"""
        return _mode_json(self.state.modes.get(None, Mode.READWRITE))

    async def subject_mode(self, call: Call) -> Any:
        """GET /mode/{subject}"""
        if call.query.flag("defaultToGlobal"):
            return _mode_json(self.state.mode_in_scope(call.subject))
        own = self.state.modes.get(call.subject)
        if own is None:
            raise errors.mode_not_found(call.subject)
        return _mode_json(own)

    async def set_mode(self, call: Call) -> Written:
        """PUT /mode and PUT /mode/{subject}"""
        subject = requests.check_subject(call.subject) if call.parts else None
        mode = requests.given_mode(call.body)
        force = call.query.flag("force")
        written = await self._service.change(
            lambda state: decisions.decide_mode(state, subject, mode, force)
        )
        return Written(_mode_json(written.answer), written.end_offset)

    async def delete_mode(self, call: Call) -> Written:
        """DELETE /mode and DELETE /mode/{subject}"""
        subject = call.subject if call.parts else None
        written = await self._service.change(
            lambda state: decisions.decide_mode_deletion(state, subject)
        )
        return Written(_mode_json(written.answer), written.end_offset)

    # The server

    async def root(self, call: Call) -> Any:
        """GET /"""
        return {}

    async def contexts(self, call: Call) -> Any:
        """GET /contexts"""
        return ["."]

    async def cluster_id(self, call: Call) -> Any:
        """GET /v1/metadata/id"""
        clusters = {
            "kafka-cluster": self._identity.kafka_cluster,
            "schema-registry-cluster": self._identity.group,
        }
        return {"scope": {"path": [], "clusters": clusters}, "id": ""}

    async def server_version(self, call: Call) -> Any:
        """GET /v1/metadata/version"""
        return {"version": f"ottla-{VERSION}", "commitId": ""}


def _prefix(call: Call) -> str:
    prefix = call.query.text("subjectPrefix", _EVERYTHING)
    return prefix.removeprefix(_EVERYTHING)


def _version_json(version: StoredVersion) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
    }
    fields |= version.content.to_json()
    if version.is_deleted:
        fields["deleted"] = True
    return fields


def _mode_json(mode: Mode) -> dict[str, str]:
    return {"mode": mode.value}


def _update_json(config: SubjectConfig) -> dict[str, Any]:
    """As PUT has it, which calls the level differently."""
    fields = config.to_json()
    level = fields.pop("compatibilityLevel", None)
    return fields if level is None else {"compatibility": level, **fields}


# The path of a route, with * for its variable parts.
READS: Final[dict[tuple[str, str], Read]] = {
    ("GET", "/"): Api.root,
    ("GET", "/contexts"): Api.contexts,
    ("GET", "/schemas"): Api.schemas,
    ("GET", "/schemas/types"): Api.schema_types,
    ("GET", "/schemas/ids/*"): Api.schema_by_id,
    ("GET", "/schemas/ids/*/schema"): Api.schema_text_by_id,
    ("GET", "/schemas/ids/*/subjects"): Api.subjects_by_id,
    ("GET", "/schemas/ids/*/versions"): Api.versions_by_id,
    ("GET", "/subjects"): Api.subjects,
    ("GET", "/subjects/*/versions"): Api.versions,
    ("GET", "/subjects/*/versions/*"): Api.version,
    ("GET", "/subjects/*/versions/*/schema"): Api.version_text,
    ("GET", "/subjects/*/versions/*/referencedby"): Api.referenced_by,
    ("GET", "/subjects/*/metadata"): Api.latest_with_metadata,
    ("POST", "/subjects/*"): Api.look_up,
    ("POST", "/compatibility/subjects/*/versions"): Api.compare_with_all,
    ("POST", "/compatibility/subjects/*/versions/*"): Api.compare_with_version,
    ("GET", "/config"): Api.config,
    ("GET", "/config/*"): Api.subject_config,
    ("GET", "/mode"): Api.mode,
    ("GET", "/mode/*"): Api.subject_mode,
    ("GET", "/v1/metadata/id"): Api.cluster_id,
    ("GET", "/v1/metadata/version"): Api.server_version,
}
WRITES: Final[dict[tuple[str, str], Write]] = {
    ("POST", "/subjects/*/versions"): Api.register,
    ("DELETE", "/subjects/*"): Api.delete_subject,
    ("DELETE", "/subjects/*/versions/*"): Api.delete_version,
    ("PUT", "/config"): Api.set_config,
    ("PUT", "/config/*"): Api.set_config,
    ("DELETE", "/config"): Api.delete_config,
    ("DELETE", "/config/*"): Api.delete_config,
    ("PUT", "/mode"): Api.set_mode,
    ("PUT", "/mode/*"): Api.set_mode,
    ("DELETE", "/mode"): Api.delete_mode,
    ("DELETE", "/mode/*"): Api.delete_mode,
}
PATHS: Final = {path for _, path in (*READS, *WRITES)}


def match_path(parts: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """The paths of routes that a path fits, with its variable parts; the most literal one first."""
    found = []
    for path in PATHS:
        pattern = tuple(path.strip("/").split("/"))
        if len(pattern) == len(parts) and all(
            wanted in ("*", part) for wanted, part in zip(pattern, parts, strict=True)
        ):
            pairs = zip(pattern, parts, strict=True)
            found.append((path, tuple(part for wanted, part in pairs if wanted == "*")))
    return sorted(found, key=lambda each: len(each[1]))
