"""Downloads that do not end, or not well: they are stopped, and nothing stays in the cache."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import dubio
from dubio.data import download as download_module
from dubio.data.download import download
from dubio.data.errors import DataError
from dubio.data.files import File

BLOCK = bytes(1 << 16)
ENDLESS = 1 << 30  # as good as
CONTENT = b"12345"


@dataclass
class Server:
    """What was asked of the server, and how much of its answers went away."""

    url: str = ""
    sent: list[int] = field(default_factory=list)
    pause: float = 0.0


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            size, _, how = self.path.strip("/").partition("-")
            number = len(state.sent)
            state.sent.append(0)
            self.send_response(200)
            if how == "promised":
                self.send_header("Content-Length", size)
            elif how == "lied":
                self.send_header("Content-Length", str(len(CONTENT)))
            elif how == "gzip":
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                while state.sent[number] < int(size):
                    self.wfile.write(BLOCK)
                    state.sent[number] += len(BLOCK)
                    time.sleep(state.pause)
            except OSError:  # nobody listens any more
                pass

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        state.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def published(url: str, size: int | None = len(CONTENT)) -> File:
    return File("a.bin", size, f"sha256:{sha256(CONTENT).hexdigest()}", url=url)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("how", ["untold", "promised", "lied"])
def test_it_stops_beyond_the_published_size(how: str, server: Server, cache: Path) -> None:
    """Five bytes were published, and a gigabyte is on its way."""
    with pytest.raises(DataError, match=r"a\.bin: the download .* failed: ") as caught:
        download(published(f"{server.url}/{ENDLESS}-{how}"))
    if how != "lied":  # what is beyond the promise is not read at all
        assert "expected 5 bytes, got more, at least" in str(caught.value)
    assert files_in(cache) == []
    assert server.sent[0] < 32 << 20  # buffers of the machine; nobody reads on


def test_a_size_that_is_not_known_has_an_end_too(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_module, "_LARGEST", 1 << 20)
    with pytest.raises(DataError, match="expected 1048576 bytes, got more"):
        download(published(f"{server.url}/{ENDLESS}-untold", None))
    assert files_in(cache) == []


def test_content_is_asked_for_as_it_is(server: Server, cache: Path) -> None:
    with pytest.raises(DataError, match=r"a\.bin: the download"):
        download(published(f"{server.url}/{ENDLESS}-gzip"))
    assert files_in(cache) == []


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs limits")
def test_a_disk_that_is_full(server: Server, cache: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    content = BLOCK * 16
    file = File("a.bin", len(content), f"sha256:{sha256(content).hexdigest()}",
                url=f"{server.url}/{len(content)}-promised")  # fmt: skip
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(DataError, match="File too large"):
            download(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert files_in(cache) == []
    assert download(file).read_bytes() == content


FETCH = """
import sys
from dubio.data.download import download
from dubio.data.files import File
url, size, digest = sys.argv[1:]
print("ready", flush=True)
download(File("a.bin", int(size), digest, url=url))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_kills_in_the_middle(server: Server, cache: Path, wait: Callable[[int], None]) -> None:
    server.pause = 0.01
    content = BLOCK * 400
    digest = f"sha256:{sha256(content).hexdigest()}"
    url = f"{server.url}/{len(content)}-promised"
    environment = {**os.environ, "PYTHONPATH": str(Path(dubio.__file__).parents[1])}
    for blocks in (1, 50, 200):
        command = [sys.executable, "-c", FETCH, url, str(len(content)), digest]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        wait(blocks)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (cache / "a.bin").exists()
    server.pause = 0.0
    assert download(File("a.bin", len(content), digest, url=url)).read_bytes() == content


@pytest.fixture
def wait(server: Server) -> Callable[[int], None]:
    seen = 0

    def until(blocks: int) -> None:
        """Until so many blocks of one more answer are sent."""
        nonlocal seen
        end = time.monotonic() + 60
        while len(server.sent) <= seen or server.sent[seen] < blocks * len(BLOCK):
            assert time.monotonic() < end
            time.sleep(0.01)
        seen += 1

    return until
