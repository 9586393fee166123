"""Between a frame and its handler: the table of APIs, the context and the reply of a handler, and the division of large
requests.
"""
