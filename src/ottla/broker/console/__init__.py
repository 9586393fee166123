"""The console of a broker: a child process, which the broker starts, watches, and starts again (ADR 0058).

In here: how the console is served, which servers of the broker it may reach, and the child. What the child does is in
`ottla.cli.console.child`, and what it shows in `ottla.console`.
"""
