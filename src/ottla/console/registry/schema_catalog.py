"""The subjects of the registry with their latest versions, kept for some seconds for all browsers.

Registries that list all schemas in one request (`GET /schemas`) are asked so; others for the latest version of each
subject, in the background. How often follows from how long it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ottla.console.registry.registry_client import RegistryClient, subject_path
from ottla.errors import OttlaError
from ottla.schemas.errors import SchemaRegistryError
from ottla.schemas.model import SchemaType

KEPT_SECONDS: Final = 10.0
MAX_SHARE: Final = 1 / 20
WAIT_SECONDS: Final = 3.0
"""How long a request waits for a list that is not there yet, or too old."""
FIRST_WAIT_SECONDS: Final = 20.0
PAGE: Final = 1_000
MAX_SUBJECTS: Final = 50_000
MAX_TEXT_BYTES: Final = 64 << 20
"""Texts of schemas that are kept for the search; subjects beyond it are found by their names only."""
AT_ONCE: Final = 4
DETAILS_SECONDS: Final = 30.0
MAX_DETAILS: Final = 5_000


class LatestVersion(NamedTuple):
    """The latest version of a subject; the last one that was deleted if none is left."""

    version: int
    id: int
    type: str
    text: str | None
    """None if there is too much to keep."""
    reference_count: int


@dataclass(frozen=True, slots=True)
class CatalogSubject:
    """A subject; `latest` is None until it was read."""

    name: str
    is_deleted: bool
    """Whether all of its versions are deleted softly."""
    latest: LatestVersion | None


@dataclass(frozen=True)
class SubjectRules:
    """What a subject has of its own; None: what is set for all."""

    version_count: int | None
    compatibility: str | None
    mode: str | None


class SchemaCatalog:
    """What the registry holds, as old as some seconds."""

    def __init__(self, registry: RegistryClient, now: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._now = now
        self._subjects: dict[str, CatalogSubject] | None = None
        self._fresh_until = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._lists_all: bool | None = None
        self._generation = 0
        self._details: dict[str, tuple[float, SubjectRules]] = {}

    async def subjects(self) -> Mapping[str, CatalogSubject]:
        """All subjects by name, those included that are deleted softly; raises if they were never told."""
        while self._subjects is None or self._now() >= self._fresh_until:
            reading = self._reading
            if reading is None or reading.done():
                reading = self._reading = asyncio.get_running_loop().create_task(self._read())
            limit = FIRST_WAIT_SECONDS if self._subjects is None else WAIT_SECONDS
            await asyncio.wait([reading], timeout=limit)
            # It is cancelled by a change, after which the list is read anew.
            if not reading.cancelled():
                if reading.done() and (error := reading.exception()) is not None:
                    raise error
                break
        return self._subjects or {}

    def forget(self, subject: str | None = None) -> None:
        """Something was changed: ask anew."""
        self._fresh_until = 0.0
        self._generation += 1
        if subject is None:
            self._details.clear()
        else:
            self._details.pop(subject, None)
        if self._reading is not None:
            # What it has read may be from before the change.
            self._reading.cancel()
            self._reading = None

    async def _read(self) -> None:
        began = self._now()
        generation = self._generation
        live = [str(each) for each in await self._registry.ask("GET", "/subjects")]
        try:
            every = await self._registry.ask("GET", "/subjects", query={"deleted": True})
        except SchemaRegistryError:
            every = live
        known = self._subjects or {}
        is_live = frozenset(live)
        names = sorted({*live, *map(str, every)})[:MAX_SUBJECTS]
        found = {
            name: CatalogSubject(
                name, name not in is_live, known[name].latest if name in known else None
            )
            for name in names
        }
        if self._subjects is None:
            # Names first: the rest may take long with a registry that lists no schemas.
            self._subjects = found
        latest = await self._latest_versions(found)
        self._keep(found, latest)
        took = self._now() - began
        if generation == self._generation:
            self._fresh_until = self._now() + max(KEPT_SECONDS, took / MAX_SHARE)

    def _keep(self, found: dict[str, CatalogSubject], latest: Mapping[str, LatestVersion]) -> None:
        size = 0
        for name, subject in found.items():
            version = latest.get(name, subject.latest)
            if version is not None and version.text is not None:
                size += len(version.text)
                if size > MAX_TEXT_BYTES:
                    version = version._replace(text=None)
            found[name] = replace(subject, latest=version)
        self._subjects = found

    async def _latest_versions(
        self, subjects: Mapping[str, CatalogSubject]
    ) -> dict[str, LatestVersion]:
        if self._lists_all is not False:
            listed = await self._listed()
            self._lists_all = listed is not None
            if listed is not None:
                return listed
        return await self._one_by_one(subjects.values())

    async def _listed(self) -> dict[str, LatestVersion] | None:
        """From `GET /schemas`; None if the registry does not have it."""
        found: dict[str, LatestVersion] = {}
        for offset in range(0, MAX_SUBJECTS, PAGE):
            query = {"latestOnly": True, "deleted": True, "offset": offset, "limit": PAGE}
            try:
                page = await self._registry.ask("GET", "/schemas", query=query)
            except SchemaRegistryError:
                return None
            if not isinstance(page, list):
                return None
            try:
                found |= {str(each["subject"]): version_of(each) for each in page}
            except (KeyError, TypeError, ValueError):
                return None
            if len(page) < PAGE:
                break
        return found

    async def _one_by_one(self, subjects: Iterable[CatalogSubject]) -> dict[str, LatestVersion]:
        """The latest versions; those that are known already are asked for only as often as the list is read."""
        found: dict[str, LatestVersion] = {}
        slots = asyncio.Semaphore(AT_ONCE)

        async def read(subject: CatalogSubject) -> None:
            async with slots:
                path = subject_path(subject.name, "versions", "latest")
                try:
                    answer = await self._registry.ask_or_none(path)
                except SchemaRegistryError:
                    return
                if answer is not None:
                    found[subject.name] = version_of(answer)

        await asyncio.gather(*(read(each) for each in subjects if not each.is_deleted))
        return found

    async def rules(self, names: Iterable[str]) -> dict[str, SubjectRules]:
        """What these subjects have of their own; those that cannot be told in time are left out."""
        now = self._now()
        wanted = [*names]
        missing = [
            each for each in wanted if each not in self._details or self._details[each][0] < now
        ]
        if len(self._details) > MAX_DETAILS:
            self._details.clear()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.gather(*(self._read_rules(each) for each in missing))
        except (TimeoutError, OttlaError):
            pass
        return {each: self._details[each][1] for each in wanted if each in self._details}

    async def _read_rules(self, name: str) -> None:
        generation = self._generation
        versions, config, mode = await asyncio.gather(
            self._registry.ask_or_none(subject_path(name, "versions")),
            self._registry.ask_or_none(subject_path(name).replace("/subjects/", "/config/", 1)),
            self._registry.ask_or_none(subject_path(name).replace("/subjects/", "/mode/", 1)),
        )
        rules = SubjectRules(
            None if versions is None else len(versions), level_of(config), mode_of(mode)
        )
        if generation == self._generation:
            self._details[name] = (self._now() + DETAILS_SECONDS, rules)

    async def close(self) -> None:
        """End what reads."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


def version_of(answer: Mapping[str, Any]) -> LatestVersion:
    """A version as registries tell it."""
    return LatestVersion(
        version=int(answer["version"]),
        id=int(answer["id"]),
        type=str(answer.get("schemaType") or SchemaType.AVRO),
        text=str(answer["schema"]),
        reference_count=len(answer.get("references") or ()),
    )


def level_of(config: Any) -> str | None:
    """The level of an answer about compatibility."""
    if not isinstance(config, dict):
        return None
    found = config.get("compatibilityLevel") or config.get("compatibility")
    return None if found is None else str(found)


def mode_of(answer: Any) -> str | None:
    """The mode of an answer about modes."""
    found = answer.get("mode") if isinstance(answer, dict) else None
    return None if found is None else str(found)
