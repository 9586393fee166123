"""Progress on terminals and in files."""

from __future__ import annotations

import io

from ottla.cli.terminal.progress import Terminal, bar


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_watched_line_changes_in_place_and_makes_way_for_one_that_stays() -> None:
    screen = Screen()
    terminal = Terminal(screen)
    terminal.show("one")
    terminal.show("two")
    terminal.say("done")
    assert screen.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[Kdone\n"


def test_where_nobody_watches_lines_are_few() -> None:
    file = io.StringIO()
    terminal = Terminal(file, interval_seconds=3600)
    for number in range(100):
        terminal.show(f"at {number}")
    terminal.say("done")
    assert file.getvalue() == "at 0\ndone\n"


def test_the_bar_fills_up() -> None:
    assert [bar(done, 10, 4) for done in (0, 4, 5, 10, 12)] == [
        "░░░░",
        "█░░░",
        "██░░",
        "████",
        "████",
    ]
    assert bar(0, 0, 2) == "██"
