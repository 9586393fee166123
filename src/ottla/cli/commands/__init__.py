"""The command line: commands, verbs, options and their help, declared with click.

One module for each command, with its `COMMAND`. Nothing here imports the client or does any work, so that help and
completion are fast: a command names the function that does its work as `module:function`, below `ottla.cli`.
"""

from __future__ import annotations

from typing import Final

# In the order of the help. The module of a command is imported only when the command is used.
SUMMARIES: Final = {
    "serve": "run a broker",
    "topics": "create, list, describe, alter and delete topics",
    "produce": "send lines as records",
    "consume": "print records of topics",
    "groups": "list and describe groups, reset and delete their offsets",
    "transactions": "list, describe, find and abort transactions",
    "configs": "show and change configs of topics, brokers, groups and client metrics",
    "acls": "create, list and delete ACLs: who may do what",
    "users": "create, list, describe and delete users, change passwords",
    "quotas": "list, set and remove quotas of users, clients and addresses",
    "certs": "make certificates for development",
    "offsets": "show first, last or other offsets of partitions",
    "records": "delete records",
    "cluster": "show brokers, versions, disks, features and controllers",
    "storage": "make, upgrade, check and fill the storage that brokers share",
    "log": "look into the files of a data folder",
    "console": "show a cluster as a web page",
    "perf": "measure how fast a cluster is",
    "app": "run apps, document them, look after their dead letters",
    "pipeline": "run exactly-once pipelines on Spark",
    "test-broker": "run a broker for tests in any language, with faults and a clock",
    "demo": "see for yourself that nothing is lost or duplicated",
    "completion": "complete commands, options and names in bash, zsh or fish",
}
