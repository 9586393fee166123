"""The admin client on asyncio: `client` is the public class, made of a class of calls for each subject.

Each call goes through `requests`, which finds the nodes to ask (`nodes`), sends one request to each, retries what may
succeed later, and collects the outcomes by key (`answers`).
"""
