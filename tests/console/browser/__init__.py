"""The console's page in a real browser; a package, so that all of its tests share one (`browser` in conftest.py)."""
