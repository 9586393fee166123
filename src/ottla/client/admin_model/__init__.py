"""What the admin clients take and return, a module for each subject: plain values, named as in Kafka's Admin.

Programs import them from `ottla.admin`.
"""
