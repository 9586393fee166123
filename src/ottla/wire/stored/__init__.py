"""Formats with versions of their own that records of internal topics and fields of messages carry, one per module."""
