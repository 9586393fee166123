"""One module for each view of the page: what its requests and answers are, the handlers, and their `ROUTES`."""
