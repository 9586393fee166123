"""HTTP: the table of routes, requests and answers as dataclasses, errors, the live stream, the files of the page."""
