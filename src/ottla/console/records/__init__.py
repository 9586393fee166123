"""Records of a topic as the console shows them: searching, the live tail, decoding, one record, producing, exporting.

In here: what a search reads and in which order (`search`, `windows`), the syntax of filters (`filters`, `json_paths`),
how bytes become text (`decoder`, `schema_values`, `arrow_values`), and what is written (`exports`). All of it works
with the clients that it is given. Not in here: the routes (`console/api/records.py`), and decoding of internal
topics (`inspection/stored_records.py`).
"""
