"""What operators ask of a cluster, and clients do not: what the command line and the console share.

Functions take clients and plain values, and return what they found or raise. Nothing here prints, asks or knows flags.

`stored_records` decodes the internal topics, `json_lines` has records as lines of JSON, `transaction_marks` says what
control records do, `lag` counts what a group has yet to read, `offset_reset` plans new offsets, `transactions` finds
those that no coordinator will end, `dead_letters` reads, replays and drops dead letters. What one command or one view
alone needs stays there.
"""
