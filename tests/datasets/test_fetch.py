"""The engine: where it looks, what it says offline, and downloads from a server on the loopback interface."""

import hashlib
import io
import socket
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from skdro.datasets import _loaders_people, _loaders_small, fetch_diabetes130, fetch_seeds
from skdro.datasets._fetch import data_root, locate
from skdro.datasets._people_columns import DIABETES_COLUMNS

KERNELS = "".join(
    f"15.2 14.{i} 0.871\t\t5.7 3.3 2.{i}\t5.2 {1 + i // 4}\n" for i in range(12)
)  # doubled tabs, as in the file at UCI


class QuietHandler(SimpleHTTPRequestHandler):
    requests: list[str] = []  # noqa: RUF012 - shared on purpose: the server makes one handler per request

    def log_message(self, *args):
        self.requests.append(self.path)


@pytest.fixture
def server(tmp_path_factory):
    """Address of an HTTP server on 127.0.0.1, and the folder it serves."""
    pytest.importorskip("pooch")
    folder = tmp_path_factory.mktemp("served")
    QuietHandler.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder)) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", folder
        http.shutdown()
        thread.join()


def seeds_at(address, sha256=None):
    remote = replace(
        _loaders_small.SEEDS.files[0],
        url=f"{address}/seeds_dataset.txt",
        sha256=sha256 and f"sha256:{sha256}",
    )
    return replace(_loaders_small.SEEDS, files=(remote,))


def test_downloads_once_and_checks_the_checksum(server, tmp_path, monkeypatch):
    address, folder = server
    (folder / "seeds_dataset.txt").write_text(KERNELS)
    sha256 = hashlib.sha256(KERNELS.encode()).hexdigest()
    monkeypatch.setattr(_loaders_small, "SEEDS", seeds_at(address, sha256))
    first = fetch_seeds(data_home=tmp_path)
    assert (tmp_path / "seeds" / "seeds_dataset.txt").read_text() == KERNELS
    second = fetch_seeds(data_home=tmp_path, download_if_missing=False)
    np.testing.assert_array_equal(first.data, second.data)
    assert first.data.shape == (12, 7)
    assert QuietHandler.requests == ["/seeds_dataset.txt"]


def test_wrong_checksum_is_refused_and_not_kept(server, tmp_path):
    address, folder = server
    (folder / "seeds_dataset.txt").write_text(KERNELS)
    with pytest.raises(ValueError, match="does not match"):
        locate(seeds_at(address, "0" * 64), tmp_path)
    assert not (tmp_path / "seeds" / "seeds_dataset.txt").exists()


def test_member_of_an_archive(server, tmp_path, monkeypatch):
    address, folder = server
    columns = ["encounter_id", "patient_nbr", *DIABETES_COLUMNS, "readmitted"]
    known = {"race": "Asian", "gender": "Male", "age": "[0-10)", "weight": "?", "change": "No"}
    known |= {"diabetesMed": "No", "readmitted": ">30", "max_glu_serum": "None", "A1Cresult": "None"}
    n_administrative = 24
    row = [known.get(name, "1" if i < n_administrative else "No") for i, name in enumerate(columns)]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("dataset_diabetes/diabetic_data.csv", ",".join(columns) + "\n" + ",".join(row) + "\n")
    (folder / "dataset_diabetes.zip").write_bytes(archive.getvalue())
    spec = _loaders_people.DIABETES130
    remote = replace(spec.files[0], url=f"{address}/dataset_diabetes.zip")
    monkeypatch.setattr(_loaders_people, "DIABETES130", replace(spec, files=(remote,)))
    assert fetch_diabetes130(data_home=tmp_path).target.tolist() == [1]
    bunch = fetch_diabetes130(data_home=tmp_path, download_if_missing=False)
    assert bunch.groups.tolist() == ["[0-10)"]
    assert np.isnan(bunch.data[0, bunch.feature_names.index("weight")])


def test_offline_message_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        fetch_seeds(data_home=tmp_path, download_if_missing=False)
    message = str(caught.value)
    for part in (str(tmp_path), "SKDRO_DATA", "data_home", "seeds/seeds_dataset.txt", "https://", "pooch"):
        assert part in message


def test_unreachable_server_gives_the_same_message(tmp_path):
    pytest.importorskip("pooch")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(FileNotFoundError, match="download failed"):
        locate(seeds_at(f"http://127.0.0.1:{port}"), tmp_path)


def test_missing_pooch_gives_the_same_message(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match="pooch is not installed"):
        fetch_seeds(data_home=tmp_path)


def test_as_frame_without_pandas(tmp_path, monkeypatch):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "seeds_dataset.txt").write_text(KERNELS)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True requires pandas"):
        fetch_seeds(data_home=tmp_path, as_frame=True)


def test_root_prefers_the_argument_then_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SKDRO_DATA", "/somewhere")
    assert data_root(tmp_path) == tmp_path
    assert str(data_root()) == "/somewhere"
    monkeypatch.delenv("SKDRO_DATA")
    assert data_root().name == "skdro_data"


def test_unknown_category_is_an_error(tmp_path):
    folder = tmp_path / "ai4i2020"
    folder.mkdir()
    from skdro.datasets import fetch_ai4i
    from skdro.datasets._loaders_industry import AI4I, FAILURE_MODES

    header = [*AI4I.feature_names, "Machine failure", *FAILURE_MODES]
    row = ["X", *["1"] * (len(header) - 1)]
    (folder / "ai4i2020.csv").write_text(",".join(header) + "\n" + ",".join(row) + "\n")
    with pytest.raises(ValueError, match="unknown categories"):
        fetch_ai4i(data_home=tmp_path)
