"""Who may do what and how much of it, as pure decisions: ACLs, login mechanisms, quotas.

Sockets, certificates, files, the clock and the catalog are not here: `broker.security` brings them together.
"""
