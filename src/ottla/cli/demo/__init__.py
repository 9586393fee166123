"""The demonstrations: they kill a broker or a driver, and count the records that are left."""
