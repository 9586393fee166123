"""Numbers and tables for people."""

from __future__ import annotations


def number(value: float) -> str:
    """Three significant digits, without exponents."""
    if value >= 100:
        digits = f"{value:.3g}"
        return f"{float(digits):,.0f}"
    return f"{value:.3g}"


def table(header: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
