"""The one bridge between threads and event loops."""

from toolyard.loop.home import HomeLoop, home_loop

__all__ = ["HomeLoop", "home_loop"]
