"""Reading and changing configs, for the three config APIs: one module for each type of resource, and the table of them.

A module describes the resources of its type and stores their options; what the requests share is in `alteration`
and `option_changes`.
"""
