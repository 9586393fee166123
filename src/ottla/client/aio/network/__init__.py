"""Connections to the brokers of a cluster: finding, opening, authenticating and keeping them, and following metadata.

Nothing here knows of records or groups.
"""
