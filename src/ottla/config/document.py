"""Writes the tables of docs/guides/configuration.md: `python -m ottla.config.document PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import ConfigOption, OptionType, options_of
from ottla.config.producer import ProducerConfig
from ottla.config.security import SecurityConfig

MARK = "<!-- What follows is written by `python -m ottla.config.document docs/guides/configuration.md`. -->\n"
"""The line between the prose and the generated tables."""

_CLIENTS: Mapping[str, type[ClientConfig]] = {
    "Producers": ProducerConfig,
    "Consumers": ConsumerConfig,
    "Admin clients": AdminConfig,
}
_HEAD = (
    "| option | type | default | accepts | importance | what it does |\n|---|---|---|---|---|---|\n"
)


def page(text: str) -> str:
    """The page with its tables written again."""
    prose, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError("the page has no line that says where the tables begin")
    return f"{prose}{MARK}\n{tables()}"


def tables() -> str:
    """The tables of all options, and of those that are refused."""
    shared, security = options_of(ClientConfig), options_of(SecurityConfig)
    sections = [
        ("All clients", [known for name, known in shared.items() if name not in security]),
        ("Security", security.values()),
        *(
            (
                title,
                [known for name, known in options_of(each).items() if known != shared.get(name)],
            )
            for title, each in _CLIENTS.items()
        ),
    ]
    parts = [f"## {title}\n\n{_HEAD}{''.join(map(_row, options))}" for title, options in sections]
    return "\n".join((*parts, _refused()))


def _row(known: ConfigOption) -> str:
    default = known.render(known.default)
    cells = (
        f"`{known.name}`",
        _type(known),
        "" if default is None else f"`{default}`" if default else "empty",
        _accepts(known),
        known.importance.value,
        known.doc,
    )
    return _line(cells)


def _type(known: ConfigOption) -> str:
    if known.type is OptionType.CLASS:
        return "names of code" if known.many else "name of code"
    return known.type.name.lower()


def _accepts(known: ConfigOption) -> str:
    if known.choices:
        return ", ".join(f"`{choice}`" for choice in known.choices if choice)
    bounds = []
    if known.at_least is not None:
        bounds.append(f"at least {known.at_least}")
    if known.at_most is not None:
        bounds.append(f"at most {known.at_most}")
    if known.also is not None:
        bounds.append(f"or {known.also}")
    return ", ".join(bounds)


def _refused() -> str:
    rows = [_line((_name_cell(name), clients, hint)) for name, clients, hint in _unsupported()]
    head = "| option | of | what to do |\n|---|---|---|\n"
    return f"## Refused\n\nOptions of Kafka's clients that Ottla does not have.\n\n{head}{''.join(rows)}"


def _unsupported() -> Iterator[tuple[str, str, str]]:
    hints = dict[str, str]()
    for each in _CLIENTS.values():
        hints |= each.unsupported
    for name, hint in sorted(hints.items()):
        owners = [title for title, each in _CLIENTS.items() if name in each.unsupported]
        in_all = len(owners) == len(_CLIENTS)
        yield name, "all" if in_all else ", ".join(owners).lower(), hint


def _name_cell(name: str) -> str:
    return f"`{name}…`" if name.endswith(".") else f"`{name}`"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main(arguments: list[str]) -> int:
    """Write the tables of the page that is named again."""
    path = Path(arguments[0])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
