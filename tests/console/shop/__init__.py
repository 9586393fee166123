"""A tea shop on any Kafka cluster: what pictures of the console show, and what its scenes look at.

`open_shop` fills topics with six hours of records and keeps producers, groups and transactions going until it is left.
Names and values are the same in every run. `python -m tests.console.shop` opens one with a broker and a console, to
look at. What a single test needs (a hostile record, a group of its own) does not belong here.
"""
