"""`adaptlab up` with stand-ins for the API, the worker and beat.

The servers and the supervisor are real.

Run as a script. `up` is what the tests start; the other names are what `up` starts, five processes
a stack, so each loads only what it needs: the supervisor alone takes a second.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path


def database_address() -> str:
    return os.environ["ADAPTLAB_DATABASE_URL"].replace("+psycopg", "")


def up(arguments: list[str]) -> None:
    from adaptlab_stack.errors import StackError
    from adaptlab_stack.up import Programs, UpOptions, run_up

    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--env-file", type=Path)
    given = parser.parse_args(arguments)
    me = (sys.executable, str(Path(__file__).resolve()))
    programs = Programs(
        prepare=(*me, "prepare"), api=(*me, "api"), worker=(*me, "worker"), beat=(*me, "beat")
    )
    options = UpOptions(
        given.data_dir,
        "127.0.0.1",
        given.port,
        given.workers,
        servers=given.servers,
        env_file=given.env_file,
    )
    try:
        run_up(options, programs, lambda line: print(line, flush=True))
    except StackError as error:
        sys.exit(f"error: {error}")


def prepare(arguments: list[str]) -> None:
    if os.environ.get("STAND_IN_PREPARE") == "fail":
        sys.exit("the tables are on strike")
    if os.environ.get("STAND_IN_PREPARE") == "hang":
        (Path(os.environ["ADAPTLAB_DATA_DIR"]) / "hanging").touch()
        signal.pause()
    import psycopg

    with psycopg.connect(database_address()) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (word text)")
    token = Path(os.environ["ADAPTLAB_DATA_DIR"]) / "token"
    token.write_text("a-token\n")


def api(arguments: list[str]) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    import psycopg

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with psycopg.connect(database_address()) as connection:
                connection.execute("SELECT 1")
            self.send_response(200)
            self.send_header("X-Setting", os.environ.get("STAND_IN_SETTING", ""))
            self.end_headers()

    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--fd", type=int)
    given = parser.parse_args(arguments)
    server = HTTPServer((given.host, given.port), Answer, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=given.fd)
    # From another thread, as it waits for the request that is being answered.
    leave = threading.Thread(target=server.shutdown)
    signal.signal(signal.SIGUSR2, lambda *_: leave.start())
    server.serve_forever(poll_interval=0.05)


def worker(arguments: list[str]) -> None:
    from adaptlab_stack.process import tie_to_parent

    if os.environ.get("STAND_IN_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))
    trainer = subprocess.Popen(
        [sys.executable, __file__, "beat"],
        start_new_session=True,
        preexec_fn=tie_to_parent(signal.SIGKILL),
    )
    while True:
        trainer.wait()
        signal.pause()


def beat(arguments: list[str]) -> None:
    signal.pause()


if __name__ == "__main__":
    {"up": up, "prepare": prepare, "api": api, "worker": worker, "beat": beat}[sys.argv[1]](
        sys.argv[2:]
    )
