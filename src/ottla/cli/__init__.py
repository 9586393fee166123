"""The `ottla` command.

`main` parses the command line, `commands/` declares what can be typed, and one package for each subject does the work.
This package has what every command needs: exit codes, errors in one line, the connection to a cluster, parsing of
times. Code for a single command belongs into the package of its subject.
"""
