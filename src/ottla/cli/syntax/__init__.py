"""What can be typed: the arguments of each command. Nothing here imports the client, so that help comes at once.

Each module adds one command and names, as `run`, the function that does the work: `module:function`, which takes the
arguments and returns the exit code.
"""
