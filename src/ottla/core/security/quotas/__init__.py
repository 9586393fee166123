"""The rules of quotas, without IO: which one applies to a client, rates over windows, throttle times, their changes.

What measures clients and keeps them waiting is the broker's.
"""
