"""The table: what is answered to every question in every situation, as text with a file for each API."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from difflib import unified_diff
from pathlib import Path
from typing import Final, NamedTuple

from tests.security.kafka_answers.brokers import Addresses
from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import Situation
from tests.security.kafka_answers.stage import Stage
from tests.security.kafka_answers.world import World

FOLDER: Final = Path(__file__).parent
RECORDED: Final = FOLDER / "recorded"
RECORDED_WITHOUT_ACLS: Final = RECORDED / "open_without_acls"

CHAPTERS: Final[Mapping[str, list[Question]]] = {
    path.stem: importlib.import_module(
        f"tests.security.kafka_answers.questions.{path.stem}"
    ).QUESTIONS
    for path in sorted((FOLDER / "questions").glob("*.py"))
}


class Cell(NamedTuple):
    """A question in one version and one situation."""

    question: int
    version: int
    situation: Situation


def answered(addresses: Addresses, questions: Iterable[Question]) -> dict[str, str]:
    """What a broker answers: the text of each API."""
    asked = list(questions)
    with ExitStack() as stack:
        stage = Stage(addresses, stack)
        answers = _ask_all(stage, World(stage), asked)
    texts: dict[str, str] = {}
    for number, question in enumerate(asked):
        texts.setdefault(question.api, f"# {question.api}\n")
        if question.about is None:
            continue
        sections: dict[str, list[str]] = {}
        for version in question.versions:
            found = {
                cell.situation: text
                for cell, text in answers.items()
                if cell.question == number and cell.version == version
            }
            sections.setdefault(_section(found), []).append(f"v{version}")
        for section, versions in sections.items():
            texts[question.api] += f"\n## {', '.join(versions)}: {question.title}\n{section}"
    for api, found in _of_super_user(asked, answers).items():
        texts[api] += f"\n## as a super user\n{_section(found)}"
    return texts


def _of_super_user(
    asked: list[Question], answers: Mapping[Cell, str]
) -> dict[str, dict[Situation, str]]:
    """The answers to what only a super user asks, by the title of the question instead of a situation."""
    found: dict[str, dict[Situation, str]] = {}
    for cell, text in answers.items():
        question = asked[cell.question]
        if question.about is None:
            row = cell.situation._replace(group=f"v{cell.version}: {question.title}")
            found.setdefault(question.api, {})[row] = text
    return found


def _ask_all(stage: Stage, world: World, questions: list[Question]) -> dict[Cell, str]:
    """One set of ACLs after the other, because they take longer to change than to ask about."""
    cells = [
        Cell(number, version, situation)
        for number, question in enumerate(questions)
        for version in question.versions
        for situation in question.situations
    ]
    order = {
        acls: place for place, acls in enumerate(dict.fromkeys(c.situation.acls for c in cells))
    }
    answers = dict.fromkeys(cells, "")
    for cell in sorted(cells, key=lambda cell: order[cell.situation.acls]):
        question = questions[cell.question]
        answer = stage.answer(
            question.api, cell.version, question.fields_in(world, cell.situation), cell.situation
        )
        answers[cell] = stage.text_of(answer, question.with_messages)
        if question.restore is not None:
            question.restore(world, answer)
    return answers


def _section(found: Mapping[Situation, str]) -> str:
    """Each answer once, under the situations in which it is given."""
    situations: dict[str, dict[str, list[str]]] = {}
    for situation, text in found.items():
        situations.setdefault(text, {}).setdefault(situation.group, []).append(situation.label)
    parts = []
    for text, groups in situations.items():
        given = [group.replace("%", "/".join(labels)) for group, labels in groups.items()]
        lines = [*given, *(f"    {line}" for line in text.split("\n"))]
        parts.append("\n".join(lines) + "\n")
    return "\n" + "\n".join(parts)


def recorded(apis: Iterable[str], folder: Path = RECORDED) -> dict[str, str]:
    """What Apache Kafka answers, by the record."""
    paths = {api: folder / f"{api}.txt" for api in apis}
    return {api: path.read_text(encoding="utf-8") for api, path in paths.items() if path.exists()}


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The lines in which two texts of the same APIs differ."""
    return "".join(
        line
        for api in sorted({*before, *now})
        for line in unified_diff(
            before.get(api, "").splitlines(keepends=True),
            now.get(api, "").splitlines(keepends=True),
            f"{api}, as recorded",
            f"{api}, as answered",
        )
    )


def record(texts: Mapping[str, str], folder: Path = RECORDED) -> None:
    folder.mkdir(exist_ok=True)
    for api, text in texts.items():
        (folder / f"{api}.txt").write_text(text, encoding="utf-8")
