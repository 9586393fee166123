"""What can be typed: commands, verbs, options and their help, declared with click.

One module for each command. Nothing here imports the client or does any work, so that help and completion come at
once: a command names the function that does its work as `module:function`, below `ottla.cli`.
"""
