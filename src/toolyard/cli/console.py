"""`toolyard open`: the console of some tools in a browser, on a free port of this machine."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from toolyard.app.config import Config, read_anything
from toolyard.cli.options import YARD, YardOptions
from toolyard.cli.output import print_json, print_text
from toolyard.cli.serve import apply_overrides
from toolyard.cli.yard import config_path
from toolyard.serving import require_serving

if TYPE_CHECKING:
    from toolyard.serving.process.listening import Address


def open(  # noqa: A001 - the verb's name
    *,
    browser: Annotated[bool, Parameter(negative="--no-browser", help="Show it in a browser.")] = True,
    port: Annotated[int, Parameter(help="Port to listen at; 0 for any that is free.")] = 0,
    options: YardOptions = YARD,
) -> int:
    """Serve the tools to this machine alone, and show their console in a browser, until stopped.

    Prints the console's address once it is there.
    """
    require_serving("toolyard open")
    path = config_path(options.config)
    read = Config(where="", base=Path(), loaders=[]) if path is None else read_anything(path)
    given = {"host": "127.0.0.1", "port": port, "log": "off"}
    block = apply_overrides(read.server, given, os.environ, alone=path is None)
    block = msgspec.structs.replace(block, page=True, workers=1)
    from toolyard.serving.process.server import serve

    out = sys.stdout

    def show(address: Address, text: str) -> None:
        url = f"{address.url}/console/tools"
        with redirect_stdout(out):
            print_json({"url": url}) if options.json else print_text(url)
            out.flush()
        if browser:
            # Some browsers keep whoever opens them waiting until they are closed.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    # Standard output is for the address alone, whatever tools print.
    with redirect_stdout(sys.stderr):
        return 0 if serve(read, block, ready=show) else 1
