"""The guide of the console has every view of its page and every picture, and none too many or too large.

tests/console/browser/test_guide_pictures.py draws the pictures.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.console.browser.small_png import size_of
from tests.console.browser.test_guide_pictures import FOLDER, PICTURES

from ottla.console.api.all_routes import ALL_ROUTES
from ottla.console.http.page_files import FOLDER as PAGE_FOLDER

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "console.md"
MAX_BYTES = 1_500_000
MAX_WIDTH = 1440
_ROUTE = re.compile(r'\{ path: "([^"]+)", view: "(\w+)"(?:, label: "([^"]+)", key: "(\w)")?')


def guide() -> str:
    return GUIDE.read_text(encoding="utf-8")


def page_routes() -> list[tuple[str, str, str]]:
    """Path, label and key of each view of the page; the last two are empty where it is not in the menu."""
    text = (PAGE_FOLDER / "app" / "routes.js").read_text(encoding="utf-8")
    found = [(match[1], match[3] or "", match[4] or "") for match in _ROUTE.finditer(text)]
    assert len(found) == text.count("path: "), "a route is written in another way"
    return found


def test_every_view_has_its_section() -> None:
    sections = re.split(r"^### ", guide(), flags=re.MULTILINE)[1:]
    by_title = {section.partition("\n")[0]: section for section in sections}
    paths = [path for path, _, _ in page_routes()]
    for path, label, _ in page_routes():
        shown = re.sub(r":(\w+)", lambda match: match[1].upper(), path)
        shown = re.sub(r"/(TOPIC)(?=/records|$)", "/NAME", shown) if "/topics/" in shown else shown
        shown = re.sub(r"/(GROUP|SUBJECT)$", "/NAME", shown)
        if label:
            assert f"`{path}`" in by_title[label], path
        else:
            assert f"`{shown}`" in guide(), (shown, paths)


def test_the_keys_of_the_guide_are_those_of_the_page() -> None:
    row = re.search(r"^\| `g` and then (.*?) \|", guide(), re.MULTILINE)
    assert row is not None
    assert re.findall(r"`(\w)`", row[1]) == [key for _, _, key in page_routes() if key]


def test_every_picture_is_in_the_guide_and_drawn_by_the_test() -> None:
    named = re.findall(r"!\[[^\]]{5,}\]\(pictures/([\w-]+)\.png\)", guide())
    assert sorted(named) == sorted(each.name for each in PICTURES)
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.png" for name in named}


def test_the_pictures_are_small() -> None:
    pictures = list(FOLDER.glob("*.png"))
    assert sum(path.stat().st_size for path in pictures) < MAX_BYTES
    assert all(300 < size_of(path)[0] <= MAX_WIDTH for path in pictures)


def test_the_paths_of_the_api_are_there() -> None:
    named = set(re.findall(r"(/api/[\w/.-]*\w)", guide()))
    assert named
    assert named <= {route.path for route in ALL_ROUTES}
