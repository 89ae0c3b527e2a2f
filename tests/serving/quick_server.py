"""uvicorn for tests, hundreds of which wait for the end of a server."""

import asyncio
import itertools

import uvicorn


class QuickServer(uvicorn.Server):
    """Looks a hundred times a second whether it shall stop; uvicorn looks ten times."""

    async def main_loop(self):
        for tick in itertools.count():
            if self.should_exit or (tick % 10 == 0 and await self.on_tick(tick // 10)):
                return
            await asyncio.sleep(0.01)
