"""Who a client is, and what it may do: callers, listeners' protocols, login, authorization, quotas.

The rules are in `core.security`; here they meet sockets, files and the catalog.
"""
