"""Generates the pages of the site that are not files of docs/: README and others, the examples, the API reference.

mkdocs.yml names this module as a hook. It also rewrites links that lead out of docs/, so that the same pages work in
the repository and on the site.
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[([^\]\[]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")

# Files of the repository outside docs/, and their place on the site.
PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples": "examples/index.md",
    **{
        f"examples/{path.name}": f"examples/{path.stem}.md"
        for path in sorted((ROOT / "examples").glob("*.py"))
    },
}
SOURCES = {place: source for source, place in PLACES.items()}

# Pages of the reference: file, title, prefixes of the modules whose names it shows. The first match counts.
REFERENCE = (
    ("broker", "Broker", ("ottla.broker",)),
    ("admin-client", "Admin", ("ottla.client.blocking.admin", "ottla.client.admin")),
    ("errors", "Errors", ("ottla.errors",)),
    ("clients", "Producer and Consumer", ("ottla",)),
)
# Where modules are that are imported while the site is built.
IMPORTED_FROM = (ROOT / "src", ROOT, ROOT / "docs" / "site")
# Names at the top of a page; the others follow in alphabetical order.
FIRST = ("Broker", "Producer", "Consumer", "Admin", "OttlaError", "KafkaError")
MODULE_TITLES = {"admin": "Admin: arguments and results", "aio": "asyncio"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for folder in IMPORTED_FROM:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    for source, place in PLACES.items():
        files.append(File.generated(config, place, content=text_of(source)))
    for place, text in reference():
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, "benchmark-history.md", content=benchmark_history()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links that lead out of docs/ to pages of the site. A link without such a page becomes plain text."""
    place = page.file.src_uri
    source = SOURCES.get(place, f"docs/{place}")

    def adapted(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (ROOT / path).exists():
            return link[0]  # mkdocs checks it
        goal = path.removeprefix("docs/") if path.startswith("docs/") else PLACES.get(path)
        if goal is None:
            return text
        return f"[{text}]({posixpath.relpath(goal, posixpath.dirname(place) or '.')}{anchor})"

    return LINK.sub(adapted, markdown)


def text_of(source: str) -> str:
    """The text of the page for a file, or for the folder of examples."""
    path = ROOT / source
    if path.is_dir():
        rows = [
            f"- [{each.name}]({each.stem}.md): {summary_of(each)}"
            for each in sorted(path.glob("*.py"))
        ]
        return "# Examples\n\nWhole programs, which the tests run.\n\n" + "\n".join(rows) + "\n"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return f'# {path.stem.replace("_", " ").capitalize()}\n\n```python title="{source}"\n{text}```\n'
    return text


def benchmark_history() -> str:
    """The page with the charts of benchmarks/history."""
    page: str = import_module("benchmark_history").page()
    return page


def summary_of(path: Path) -> str:
    described = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return described.split("\n\n")[0].replace("\n", " ")


def reference() -> Iterator[tuple[str, str]]:
    """The pages of the reference: every public name of `ottla`, and its public modules."""
    exported = import_module("ottla.names")
    pages: dict[str, list[str]] = {}
    for home, names in exported.NAMES.items():
        page = next(file for file, _, starts in REFERENCE if home.startswith(starts))
        pages.setdefault(page, []).extend(names.split())
    rows = []
    for file, title, _ in sorted(REFERENCE, key=lambda row: row[0] != "clients"):
        names = sorted(pages.get(file, ()), key=order_of)
        rows.append(f"| [{title}]({file}.md) | {listed(names)} |")
        inherited = NOTHING_INHERITED if file == "errors" else ""
        text = "\n".join(f"::: ottla.{name}\n{inherited}" for name in names)
        yield f"reference/{file}.md", f"# {title}\n\n{text}"
    modules = [(name, f"ottla.{name}") for name in exported.MODULES]
    for file, module in (
        *modules,
        ("app", "ottla.app"),
        ("spark", "ottla.spark"),
        ("testing", "ottla.testing"),
        ("pytest", "ottla.testing.plugin"),
    ):
        title = MODULE_TITLES.get(file, file.capitalize() if file != "pytest" else "pytest plugin")
        rows.append(f"| [{title}]({file}.md) | `{module}` |")
        yield f"reference/{file}.md", f"# {title}\n\n{text_of_module(module)}"
    yield "reference/index.md", INDEX + "\n".join(rows) + "\n"


INDEX = """# API reference

Every public name with its signature and documentation. The [guides](../guides/producing.md) show how to use them
together, and [configuration](../guides/configuration.md) has every option.

| page | names |
|---|---|
"""


# Inherited attributes of an error are shown only on their own class.
NOTHING_INHERITED = "    options:\n      inherited_members: false\n"


def order_of(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def text_of_module(path: str) -> str:
    """The exported names of a module, or the whole module if it exports none."""
    module = import_module(path)
    names = getattr(module, "__all__", None)
    if names is None:
        return f"::: {path}\n"
    return "\n".join(f"::: {path}.{name}\n{shown_members(path, name)}" for name in names)


def shown_members(path: str, name: str) -> str:
    """The methods of an asyncio client that the blocking client has too; the others are internal."""
    if path != "ottla.aio":
        return ""
    face = getattr(import_module("ottla"), name)
    names = [f'"{each}"' for each in dir(face) if not each.startswith("_")]
    return f"    options:\n      members: [{', '.join(names)}]\n"
