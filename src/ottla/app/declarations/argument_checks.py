"""Checks of arguments that programs without type checkers may get wrong."""

from __future__ import annotations


def is_text(thing: object) -> bool:
    """Whether it is text with something in it."""
    return isinstance(thing, str) and bool(thing.strip())


def is_count(thing: object) -> bool:
    """Whether it is a whole number from 1 on."""
    return isinstance(thing, int) and not isinstance(thing, bool) and thing >= 1
