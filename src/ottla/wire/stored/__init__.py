"""One module for each format that the records of internal topics, and fields of messages, carry."""
