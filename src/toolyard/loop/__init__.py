"""The home loop and thread pools: the only bridges between threads and event loops.

This module imports nothing, because the home loop imports asyncio, which sync tools never need.
"""
