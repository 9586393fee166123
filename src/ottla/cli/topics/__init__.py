"""Commands about topics: `selection` by name or pattern, `overview`, and `changes`.

Commands about records belong into `records`, those about configs into `cluster`.
"""
