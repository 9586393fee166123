"""All scripts, and what Apache Kafka answered to them when they were recorded."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path

from tests.groups.kafka_answers.script import SCRIPTS, Script

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "recorded"

for _path in sorted((FOLDER / "scripts").glob("*.py")):
    importlib.import_module(f"tests.groups.kafka_answers.scripts.{_path.stem}")

ALL: Mapping[str, Script] = SCRIPTS


def recording(subject: str) -> dict[str, list[str]]:
    """The recorded answers to the scripts of a module."""
    path = RECORDED / f"{subject}.json"
    if not path.exists():
        return {}
    found: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def recorded() -> dict[str, list[str]]:
    """The recorded answers to every script."""
    found: dict[str, list[str]] = {}
    for path in sorted(RECORDED.glob("*.json")):
        found.update(recording(path.stem))
    return found


def record(answers: Mapping[str, list[str]]) -> None:
    """Write down what Kafka answered to some scripts, and forget scripts that are no more."""
    for subject in {script.subject for script in ALL.values()}:
        names = {script.name for script in ALL.values() if script.subject == subject}
        before = {name: lines for name, lines in recording(subject).items() if name in names}
        now = {**before, **{name: lines for name, lines in answers.items() if name in names}}
        text = json.dumps(dict(sorted(now.items())), indent=1, ensure_ascii=False)
        (RECORDED / f"{subject}.json").write_text(text + "\n", encoding="utf-8")
