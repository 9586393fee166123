"""Commands about security: ACLs, users, quotas, certificates."""
