"""Settings of `ottla pipeline run` for the pipelines of the program that it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.spark.pipeline.pipeline import Pipeline
    from ottla.spark.pipeline.progress_report import Progress


@dataclass
class Run:
    """One run of a program."""

    master: str | None = None
    bootstrap_servers: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    goes_on: bool = False
    """Whether it replaces a process whose driver died."""
    on_progress: Callable[[Progress], None] | None = None
    on_start: Callable[[Pipeline], None] | None = None
    tell: Callable[[str], None] = lambda text: None
    """Shows a message to the user."""
    offered: list[Pipeline] = field(default_factory=list)
    """Pipelines that the program has created."""
    ran: list[Pipeline] = field(default_factory=list)
    """Those that the program has run itself."""


_nothing: Final = Run()
_current = _nothing


def overrides() -> Run:
    """The overrides of the command line; empty if the program was not started by it."""
    return _current


def begin(run: Run) -> None:
    """Set the overrides."""
    global _current
    _current = run


def offer(pipeline: Pipeline) -> None:
    """The program has created a pipeline."""
    if _current is not _nothing:
        _current.offered.append(pipeline)


def begun(pipeline: Pipeline) -> Run:
    """The program runs a pipeline; its overrides."""
    if _current is not _nothing:
        _current.ran.append(pipeline)
    if _current.on_start is not None:
        _current.on_start(pipeline)
    return _current
