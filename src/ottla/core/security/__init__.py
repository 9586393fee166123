"""The rules of authentication, authorization and quotas, without IO: SASL mechanisms, credentials, ACLs."""
