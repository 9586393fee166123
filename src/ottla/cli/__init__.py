"""The `ottla` command.

`main` takes what was typed, `commands/` declares what can be typed, and one room for each subject does the work.
What every command needs stands here: exit codes, errors in one line, the connection to a cluster, times as people
write them. What only one command needs belongs into the room of its subject.
"""
