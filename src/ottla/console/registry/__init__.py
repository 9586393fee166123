"""The schema registry of a console: asking it without waiting for it, what it holds, and who may see which subject.

`registry_client` asks, with short limits and a pause after failures. `schema_catalog` keeps the list of subjects for
some seconds. `seen_subjects` says which subjects a user may see. `schema_difference` compares two texts.

A registry knows nothing of the users of a console: it is asked with the console's own credentials. What a user may do
there is decided by the role in the console, and what it may see by the topics that it may see.
"""
