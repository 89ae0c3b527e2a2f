"""The home loop and the threads beside it: the only bridges between threads and event loops.

Nothing is imported here: the home loop brings asyncio, which sync tools in the caller's thread never need.
"""
