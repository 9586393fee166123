"""Commands about transactions: list, describe, find hanging ones, abort."""
