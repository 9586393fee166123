"""The version of this package, which pyproject.toml reads here."""

VERSION = "0.1.0"
