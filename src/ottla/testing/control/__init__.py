"""A broker for tests in any language: `ottla test-broker`, and the HTTP API with which a test controls it.

`routes` is the table of what can be asked, `json_shapes` says how requests and answers look in JSON, `server` speaks
HTTP, and `command` is the command.
"""
