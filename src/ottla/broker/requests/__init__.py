"""Between a frame and its handler: the table of APIs, what a handler is given and may answer, and requests that are
divided because they are large.
"""
