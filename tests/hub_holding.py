"""A hub that stops amid a file, so that its reader can be killed there."""

import threading
from collections.abc import Callable

from tests.hub_server import Handler


def holding_at(
    place: int, reached: threading.Event, over: threading.Event
) -> Callable[[Handler], bool]:
    """Answer the bytes up to a place, and no more."""

    def change(handler: Handler) -> bool:
        content = handler.hub.by_digest[handler.path.rpartition("/")[2]]
        start = int(handler.headers["range"].removeprefix("bytes=").partition("-")[0])
        if "-131071" in handler.headers["range"] or start >= place:
            reached_now = start >= place
            if reached_now:
                reached.set()
            return False
        handler.send_response(206)
        handler.send_header("content-length", str(len(content) - start))
        handler.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.end_headers()
        handler.wfile.write(content[start:place])
        reached.set()
        over.wait(60)
        handler.close_connection = True
        return True

    return change
