"""trireme/exporting/packaging.py: models in their own form, as MLflow loads them."""

import pickle
import time

import joblib
import mlflow
import numpy as np
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import LabelEncoder

from trireme.evaluation.source import Source
from trireme.exporting import isolated
from trireme.exporting.packaging import SAMPLE, package
from trireme.packages import install

X = np.array([[0.0], [1.0], [2.0], [3.0]])
LABELS = np.array(["cat", "cat", "dog", "dog"])

LOADER = """
class Model:
    def predict(self, x, params=None):
        return [{"label": "cat", "score": 1.0} for _ in x]

def _load_pyfunc(path):
    return Model()
"""


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    (folder / "src").mkdir(parents=True)
    return folder


def packaged(model, code, tmp_path, entrypoint="", factory=""):
    source = Source(model, code, entrypoint, factory)
    return package(source, X, tmp_path / "exported", "the reason")


@pytest.mark.slow
def test_a_folder_that_mlflow_has_saved_is_the_model(model, code, tmp_path):
    (model / "notes.txt").write_text("of the training")
    mlflow.sklearn.save_model(LogisticRegression().fit(X, LABELS), model / "model")
    made = packaged(model, code, tmp_path)
    assert made.words == "an MLflow model, answers inputs.npy through MLflow"
    assert (tmp_path / "exported" / "MLmodel").is_file()


def test_the_model_is_packaged_and_not_the_encoder_beside_it(model, code, tmp_path):
    (model / "encoder.pkl").write_bytes(pickle.dumps(LabelEncoder().fit(LABELS)))
    (model / "model.pkl").write_bytes(pickle.dumps(LogisticRegression().fit(X, LABELS)))
    made = packaged(model, code, tmp_path)
    assert made.words == "MLflow's sklearn, answers inputs.npy through MLflow"


@pytest.mark.slow
def test_a_forest_of_skops_is_loaded_by_its_server(model, code, tmp_path):
    skops.io.dump(RandomForestClassifier(n_estimators=2).fit(X, LABELS), model / "model.skops")
    made = packaged(model, code, tmp_path)
    assert made.words == "MLflow's sklearn, answers inputs.npy through MLflow"


@pytest.mark.parametrize("place", ["loader.py", "src/loader.py"])
def test_a_loader_may_be_beside_the_program(model, code, tmp_path, place):
    (model / "weights").write_text("any")
    (code / place).write_text(LOADER)
    made = packaged(model, code, tmp_path, "src/train.py", "loader:_load_pyfunc")
    assert made.words == "MLflow's python_function, answers inputs.npy through MLflow"


def test_why_a_network_is_not_converted_is_told(model, code, tmp_path):
    (model / "model.pt2").write_bytes(b"no program")
    made = packaged(model, code, tmp_path)
    assert made.words.endswith("a pytorch model that is not converted: the reason")


def test_a_models_own_file_called_as_the_kept_answers_stays(model, code, tmp_path):
    np.savez(model / "sample.npz", mine=X)
    (code / "loader.py").write_text(LOADER)
    made = packaged(model, code, tmp_path, "train.py", "loader:_load_pyfunc")
    assert made.words == "MLflow's python_function, answers inputs.npy through MLflow"
    with np.load(tmp_path / "exported" / "sample.npz") as own:
        assert own.files == ["mine"]


@pytest.mark.parametrize("entrypoint", ["train.py", "src/train.py"])
def test_neither_a_link_to_nowhere_nor_a_models_own_folder_is_in_a_loaders_way(
    model, code, tmp_path, monkeypatch, entrypoint
):
    (model / "code").mkdir()
    (model / "code" / "notes.py").write_text("")
    (code / "latest").symlink_to("data/latest")
    (code / entrypoint).with_name("loader.py").write_text(LOADER)
    made = packaged(model, code, tmp_path, entrypoint, "loader:_load_pyfunc")
    assert made.words == "MLflow's python_function, answers inputs.npy through MLflow"
    exported = tmp_path / "exported"
    assert [path.name for path in (exported / "code").iterdir()] == ["notes.py"]
    # Its packages are installed from there, too.
    lock = f"# {install._PLATFORM}\n./own\n"
    (exported / "packages.txt").write_text(lock)
    built = []
    monkeypatch.setattr(install, "_built", lambda lock, *more: built.append((lock, more[-1].code)))
    install.of_model(exported)
    assert built == [(lock, exported / "code-of-run")]


def test_a_pickle_of_joblib_may_have_a_folder_of_that_name_beside_it(model, code, tmp_path):
    (model / "code").mkdir()
    joblib.dump(LogisticRegression().fit(X, LABELS), model / "model.joblib")
    made = packaged(model, code, tmp_path)
    assert made.words == "MLflow's python_function, answers inputs.npy through MLflow"


class Sleeping:
    def __reduce__(self):
        return time.sleep, (3600,)


def test_a_pickle_that_never_ends_is_not_waited_for(model, code, tmp_path, monkeypatch):
    monkeypatch.setattr(isolated, "LIMIT", 0.5)
    (model / "model.pkl").write_bytes(pickle.dumps(Sleeping()))
    made = packaged(model, code, tmp_path)
    assert made.words == (
        "MLflow's sklearn, does not answer inputs.npy through MLflow: it has neither been loaded "
        "nor answered within 0 s"
    )


def test_a_pickle_is_loaded_where_nothing_opens_servers(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("MAX_JOBS", "2")
    code = tmp_path / "code"
    code.mkdir()
    (code / "spy.py").write_text(
        "import os\nimport numpy as np\n\n\n"
        "class Model:\n    def predict(self, inputs, params=None):\n"
        "        names = ('MLFLOW_TRACKING_PASSWORD', 'AWS_SECRET_ACCESS_KEY', 'MAX_JOBS')\n"
        "        return np.array([name in os.environ for name in names], dtype=float)\n\n\n"
        "def _load_pyfunc(path):\n    return Model()\n"
    )
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights.pkl").write_bytes(b"")
    source = Source(model, code, "train.py", "spy:_load_pyfunc", "")
    made = package(source, np.zeros((3, 2)), tmp_path / "exported", "")
    assert made.note == "answers inputs.npy through MLflow"
    with np.load(tmp_path / "exported" / SAMPLE) as kept:
        assert kept["outputs"].tolist() == [0, 0, 1]
