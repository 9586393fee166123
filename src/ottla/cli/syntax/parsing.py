"""A parser of arguments that takes options and names in any order."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """argparse gives all names that a list may have to the first that come together: `produce TOPIC -l FILE` fails."""

    _is_parsing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As it is, but where names are a list, the options are taken out first."""
        if self._is_parsing or not self._has_list():
            return super().parse_known_args(args, namespace)
        self._is_parsing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_parsing = False

    def _has_list(self) -> bool:
        names = self._get_positional_actions()
        if any(isinstance(action, argparse._SubParsersAction) for action in names):
            return False
        return any(action.nargs in ("*", "+", "?") for action in names)
