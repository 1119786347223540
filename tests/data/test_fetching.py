"""Public sets: downloaded once, trusted at first, checked ever after; clear words where there is no network."""

from __future__ import annotations

import bz2
import hashlib
import io
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symsgd.data import PUBLIC_SETS, TWINS, PublicReader, fetch, read_public, registry
from symsgd.data.registry import LIBSVM, PublicFile, PublicSet
from symsgd.errors import DataError

TRAIN = b"+1 1:0.5 3:1\n-1 2:2\n+1 5:1\n"
TEST = b"-1 1:1\n"


def archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"tiny/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


TINY = PublicSet("tiny", "binary", 6, PublicFile("binary/tiny.bz2", 3), PublicFile("binary/tiny.t", 1))
PACKED = PublicSet(
    "packed", "binary", 6, PublicFile("binary/p.tar.xz", 3, "tiny/train"), PublicFile("binary/p.tar.xz", 1, "tiny/test")
)


class Server:
    """What lies on the network; ``asked`` is what was asked for."""

    def __init__(self) -> None:
        self.files = {
            "/binary/tiny.bz2": bz2.compress(TRAIN),
            "/binary/tiny.t": TEST,
            "/binary/p.tar.xz": archive(other=b"", train=TRAIN, test=TEST),
        }
        self.missing_bytes = 0
        self.asked: list[str] = []
        self._http = HTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *arguments: Any) -> None:
        self.of = server
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.of.asked.append(self.path)
        data = self.of.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) - self.of.missing_bytes])

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(registry, "PUBLIC_SETS", {"tiny": TINY, "packed": PACKED})
    server = Server()
    yield server
    server.stop()


def test_a_set_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    where: dict[str, Any] = {"folder": tmp_path / "new", "base_url": server.url}
    path = fetch("tiny", **where)
    assert path == tmp_path / "new" / "tiny.bz2"
    assert path.read_bytes() == server.files["/binary/tiny.bz2"]
    assert fetch("tiny", **where) == path
    assert server.asked == ["/binary/tiny.bz2"]
    assert fetch("tiny", test=True, **where).read_bytes() == TEST
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "tiny.bz2", "tiny.bz2.sha256", "tiny.t", "tiny.t.sha256",
    ]  # fmt: skip


def test_the_rows_of_a_set(server: Server, tmp_path: Path) -> None:
    for name in ("tiny", "packed"):
        data = read_public(name, folder=tmp_path, base_url=server.url + "/")
        np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 1, 0, 0, 0], [0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]])
        assert data.y.tolist() == [1.0, -1.0, 1.0]
        test = read_public(name, test=True, folder=tmp_path, base_url=server.url, dtype=np.float64)
        assert test.X.shape == (1, 6)
        assert test.X.dtype == np.float64
        assert test.schema == data.schema
        assert f"{LIBSVM}/binary.html" in data.notes[0]
    assert server.asked == ["/binary/tiny.bz2", "/binary/tiny.t", "/binary/p.tar.xz"]


def test_the_note_is_what_sha256sum_reads(server: Server, tmp_path: Path) -> None:
    path = fetch("tiny", folder=tmp_path, base_url=server.url)
    digest = hashlib.sha256(server.files["/binary/tiny.bz2"]).hexdigest()
    assert (tmp_path / f"{path.name}.sha256").read_text() == f"{digest}  tiny.bz2\n"


def test_a_damaged_file_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    path = fetch("tiny", folder=tmp_path, base_url=server.url)
    path.write_bytes(path.read_bytes()[:-3])
    assert read_public("tiny", folder=tmp_path, base_url=server.url).X.shape == (3, 6)
    assert len(server.asked) == 2


def test_another_file_at_the_same_address_is_refused(server: Server, tmp_path: Path) -> None:
    path = fetch("tiny", folder=tmp_path, base_url=server.url)
    path.unlink()
    server.files["/binary/tiny.bz2"] = bz2.compress(TRAIN + TEST)
    with pytest.raises(DataError, match=r"another file than the one that came first.*delete tiny\.bz2\.sha256"):
        fetch("tiny", folder=tmp_path, base_url=server.url)
    assert not path.exists()
    (tmp_path / "tiny.bz2.sha256").unlink()
    with pytest.raises(DataError, match="has 4 rows; 'tiny' has 3"):
        read_public("tiny", folder=tmp_path, base_url=server.url)


def test_a_file_put_there_by_hand_is_used(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMSGD_DATA", str(tmp_path))
    (tmp_path / "tiny.bz2").write_bytes(bz2.compress(TRAIN))
    assert fetch("tiny", base_url=server.url) == tmp_path / "tiny.bz2"
    assert (tmp_path / "tiny.bz2.sha256").exists()
    assert server.asked == []


def test_a_download_that_is_cut_short_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.missing_bytes = 7
    with pytest.raises(ConnectionError, match=r"tiny\.bz2"):
        fetch("tiny", folder=tmp_path, base_url=server.url)
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_where_there_is_no_network(server: Server, tmp_path: Path) -> None:
    del server.files["/binary/tiny.bz2"]
    with pytest.raises(ConnectionError, match="404"):
        fetch("tiny", folder=tmp_path, base_url=server.url)
    server.stop()
    with pytest.raises(ConnectionError) as caught:
        fetch("tiny", folder=tmp_path, base_url=server.url)
    said = str(caught.value)
    assert f"{server.url}/binary/tiny.bz2" in said
    assert f"put it at {tmp_path / 'tiny.bz2'}" in said
    assert "SYMSGD_DATA" in said


def test_features_beyond_those_of_the_set_are_refused(server: Server, tmp_path: Path) -> None:
    server.files["/binary/tiny.t"] = b"1 7:1\n"
    with pytest.raises(DataError, match="7"):
        read_public("tiny", test=True, folder=tmp_path, base_url=server.url)


def test_archives_without_the_rows_or_damaged(server: Server, tmp_path: Path) -> None:
    server.files["/binary/p.tar.xz"] = archive(train=TRAIN)
    with pytest.raises(DataError, match="there is no 'tiny/test'"):
        read_public("packed", test=True, folder=tmp_path, base_url=server.url)
    (tmp_path / "p.tar.xz").write_bytes(b"not an archive")
    (tmp_path / "p.tar.xz.sha256").unlink()
    with pytest.raises(DataError, match="is damaged"):
        read_public("packed", folder=tmp_path, base_url=server.url)


def test_a_bar_shows_what_came(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch("tiny", folder=tmp_path, base_url=server.url, progress=True)
    assert "tiny.bz2" in capsys.readouterr().out


def test_rows_come_in_parts(server: Server, tmp_path: Path) -> None:
    reader = PublicReader("tiny", folder=tmp_path, base_url=server.url)
    assert sum(len(part.y) for part in reader.parts()) == 3
    assert reader.schema.n_features == 6
    assert reader.index_shift == 0


def test_unknown_sets_and_rows_that_nobody_has_split() -> None:
    with pytest.raises(ValueError, match=r"name='rcv2' is not known; accepted are 'a9a', .*'rcv1'"):
        fetch("rcv2")
    with pytest.raises(ValueError, match="nobody has split 'url'"):
        fetch("url", test=True)


def test_the_registry_has_the_originals_of_the_twins() -> None:
    assert set(TWINS) - set(PUBLIC_SETS) == {"adclick"}  # which is not public
    assert PUBLIC_SETS["webspam"].n_features == TWINS["webspam"].n_features
    assert PUBLIC_SETS["url"].n_features == TWINS["url"].n_features
    for name, public in PUBLIC_SETS.items():
        assert public.name == name
        assert public.page == f"{LIBSVM}/{public.task}.html"


def test_without_pooch_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pooch'] = None\n"
        "import symsgd.data\n"
        f"try: symsgd.data.fetch('a9a', folder={str(tmp_path)!r})\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'symsgd[fetch]'" in done.stdout
