"""Downloads from a server on this machine: whole and checked, or not at all."""

import io
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import dubio.report.progress
from dubio.data.dataset import Dataset, Form
from dubio.data.errors import DataError
from dubio.data.files import File

CONTENT = bytes(range(256)) * 2000


@dataclass
class Server:
    """What the server answers by path: content, and how many bytes it promises."""

    url: str = ""
    answers: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    gate: threading.Barrier | None = None

    def offer(self, content: bytes, promised: int | None = None) -> str:
        name = f"/file{len(self.answers)}.bin"
        self.answers[name] = (content, len(content) if promised is None else promised)
        return self.url + name


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            if self.path not in state.answers:
                self.send_error(404)
                return
            content, promised = state.answers[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            half = len(content) // 2
            self.wfile.write(content[:half])
            if state.gate is not None:
                state.gate.wait(timeout=300)
            self.wfile.write(content[half:])

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.delenv("DUBIO_DATA", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def made_up(*files: File) -> Dataset:
    form = Form("the original", files)
    return Dataset("made-up", "A made-up set", "any", "nobody", "https://example.org", (form,))


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_file_is_downloaded_once(
    server: Server, cache: Path, publish: Callable[..., File]
) -> None:
    file = publish(CONTENT, "some/folder/a.bin", server.offer(CONTENT))
    for _ in range(2):
        copy = made_up(file).locate()
        assert copy.paths == (cache / "some/folder/a.bin",)
        assert copy.paths[0].read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert files_in(cache) == [cache / "some/folder/a.bin"]


def test_what_is_in_dubio_data_is_not_downloaded(
    server: Server, folder: Path, cache: Path, publish: Callable[..., File]
) -> None:
    here = publish(b"here", "here.bin", server.offer(b"here"))
    there = publish(b"there", "there.bin", server.offer(b"there"))
    (folder / "here.bin").write_bytes(b"here")
    assert made_up(here, there).locate().paths == (folder / "here.bin", cache / "there.bin")
    assert server.requests == ["/file1.bin"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("wrong content", "does not match the known hash"),
        ("truncated", "(more expected|does not match the known hash)"),
        ("too short", "does not match the known hash"),
        ("404", "404 Client Error"),
    ],
)
def test_a_bad_download_leaves_nothing(
    fault: str, reason: str, server: Server, cache: Path, publish: Callable[..., File]
) -> None:
    url = {
        "wrong content": server.offer(CONTENT[::-1]),
        "truncated": server.offer(CONTENT[:1000], promised=len(CONTENT)),
        "too short": server.offer(CONTENT[:1000]),
        "404": f"{server.url}/gone",
    }[fault]
    with pytest.raises(DataError, match=rf"a.bin: the download .* failed: .*{reason}") as caught:
        made_up(publish(CONTENT, "a.bin", url)).locate()
    assert url in str(caught.value)
    assert files_in(cache) == []


def test_an_archive_is_checked_by_its_members_before_it_is_put_in_place(
    server: Server, cache: Path
) -> None:
    def archive(content: bytes) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as file:
            info = tarfile.TarInfo("in/a.txt")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
        return stream.getvalue()

    contents = (("in/a.txt", sha256(CONTENT).hexdigest()),)
    wrong = File("a.tar.gz", contents=contents, url=server.offer(archive(b"other")))
    with pytest.raises(DataError, match=r"expected in/a.txt with sha256:"):
        made_up(wrong).locate()
    assert files_in(cache) == []
    right = File("a.tar.gz", contents=contents, url=server.offer(archive(CONTENT)))
    made_up(right).locate()
    assert files_in(cache) == [cache / "a.tar.gz"]


def test_an_interrupted_download_leaves_nothing(
    server: Server,
    cache: Path,
    publish: Callable[..., File],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    file = publish(CONTENT, "a.bin", server.offer(CONTENT))
    with monkeypatch.context() as patch:
        patch.setattr(dubio.report.progress.Progress, "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            made_up(file).locate()
    assert files_in(cache) == []
    assert made_up(file).locate().paths[0].read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written(
    server: Server,
    tmp_path: Path,
    publish: Callable[..., File],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "a file").write_bytes(b"")
    monkeypatch.setenv("DUBIO_CACHE", str(tmp_path / "a file" / "cache"))
    with pytest.raises(DataError, match=r"a.bin: the download from .* failed: .*a file"):
        made_up(publish(CONTENT, "a.bin", server.offer(CONTENT))).locate()
    assert server.requests == []


def test_a_read_only_cache_can_be_read(
    server: Server, cache: Path, publish: Callable[..., File]
) -> None:
    file = publish(CONTENT, "a.bin", server.offer(CONTENT))
    made_up(file).locate()
    cache.chmod(0o500)
    (cache / "a.bin").chmod(0o400)
    try:
        assert made_up(file).locate().paths == (cache / "a.bin",)
    finally:
        cache.chmod(0o700)


def test_progress_is_shown(
    server: Server,
    publish: Callable[..., File],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    seconds = count(step=2)
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr(dubio.report.progress, "time", clock)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    made_up(publish(CONTENT, "a.bin", server.offer(CONTENT))).locate()
    assert "download a.bin ━" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


FETCH = """
import sys
from dubio.data.dataset import Dataset, Form
from dubio.data.files import File
url, size, digest = sys.argv[1:]
form = Form("the original", (File("deep/er/a.bin", int(size), digest, url=url),))
path = Dataset("made-up", "", "", "", "", (form,)).locate().paths[0]
assert len(path.read_bytes()) == int(size)
"""


def test_two_processes_at_once(server: Server, cache: Path, publish: Callable[..., File]) -> None:
    file = publish(CONTENT, "deep/er/a.bin", server.offer(CONTENT))
    server.gate = threading.Barrier(2)  # both are in the middle of their download at once
    arguments = [str(file.url), str(file.size), str(file.digest)]
    command = [sys.executable, "-c", FETCH, *arguments]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    assert len(server.requests) == 2
    assert files_in(cache) == [cache / "deep/er/a.bin"]
    assert (cache / "deep/er/a.bin").read_bytes() == CONTENT
