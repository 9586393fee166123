"""Topics: which ones are meant (`selection`), what they are (`overview`), and what changes them.

Records of topics belong into `records`, their configs into `cluster`.
"""
