"""The OpenAPI document of the JSON API, made from the table of routes and the annotations of their handlers."""
