"""Servers that clients of the same process, or of a child that it started, reach without a network.

A connection is a pair of sockets. `servers` has the servers of a process by their host names; through `child_channel` a
child process asks for connections to some of them, and `parent_channel` is the child's end. What is served belongs
elsewhere.
"""

from ottla.in_process.servers import connect, is_here, serve, withdraw, without_hosts

__all__ = ["connect", "is_here", "serve", "withdraw", "without_hosts"]
