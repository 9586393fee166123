"""The HTTP servers that stand beside the broker's listeners: their addresses, their TLS and their login.

What they serve is elsewhere: metrics, the schema registry, the health of an app.
"""
