"""What the source says of a class's fields: the text below each of them."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise


def field_texts(type_: type) -> Mapping[str, str]:
    """The text of each field that has one, those of inherited fields too; none where there is no source."""
    found: dict[str, str] = {}
    for each in reversed(type_.__mro__):
        if each.__module__.startswith("ottla."):
            found.update(_own_texts(each))
    return found


def class_text(type_: type) -> str | None:
    """The docstring of a class, in one line; None for the signature that a dataclass gets without one."""
    text = type_.__dict__.get("__doc__")
    if not text or text.startswith(f"{type_.__name__}("):
        return None
    return in_one_line(str(text))


def in_one_line(text: str) -> str:
    """A docstring without its line breaks; `code` stays as it is."""
    return " ".join(text.split())


def _own_texts(type_: type) -> Mapping[str, str]:
    return _texts_of_module(type_.__module__).get(type_.__qualname__, {})


@lru_cache(maxsize=256)
def _texts_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """The texts of the fields of a module's classes."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except OSError:
        return {}
    return {
        node.name: dict(_texts_below_fields(node.body))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _texts_below_fields(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, in_one_line(text.value.value)
