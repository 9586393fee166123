"""What users declare, as data: listeners, parameters and results of handlers, retries, options.

Nothing here reads or writes a topic.
"""
