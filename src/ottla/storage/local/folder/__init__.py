"""The data folder: its layout, identity, format version, lock, catalog journal and checkpoint files."""
