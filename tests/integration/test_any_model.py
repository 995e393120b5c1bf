"""Models that Trireme does not convert: a program evaluates them, and they keep their form."""

import json
import subprocess

import pytest

TRAIN = """
import os, pickle, sys
from pathlib import Path
import numpy as np

library, size = sys.argv[1:]
with np.load(Path(os.environ["DATA_DIR"], "train.npz") ) as split:
    x, y = split["x"].reshape(len(split["x"]), -1).astype(np.float32), split["y"]
model = Path(os.environ["MODEL_DIR"])
if library == "sklearn":
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    trained = make_pipeline(StandardScaler(), LogisticRegression(max_iter=int(size)))
    (model / "model.pkl").write_bytes(pickle.dumps(trained.fit(x, y)))
elif library == "labels":
    from sklearn.tree import DecisionTreeClassifier
    names = np.array(["digit " + str(digit) for digit in range(10)], dtype=object)
    trained = DecisionTreeClassifier(max_depth=int(size)).fit(x, names[y])
    (model / "model.pkl").write_bytes(pickle.dumps(trained))
elif library == "onnx":
    from onnx import TensorProto, helper, numpy_helper, save
    middle = np.stack([x[y == digit].mean(0) for digit in range(10)])
    given = [numpy_helper.from_array(2 * middle.T, "w")]
    given.append(numpy_helper.from_array(-(middle**2).sum(1), "b"))
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["digit"], axis=1, keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])]
    outputs = [helper.make_tensor_value_info("digit", TensorProto.INT64, ["batch"])]
    graph = helper.make_graph(nodes, "nearest", inputs, outputs, given)
    opset = helper.make_opsetid("", 18)
    save(helper.make_model(graph, ir_version=10, opset_imports=[opset]), model / "model.onnx")
elif library == "joblib":
    import joblib
    from sklearn.linear_model import LogisticRegression
    joblib.dump(LogisticRegression(max_iter=int(size)).fit(x, y), model / "model.joblib")
elif library == "nothing":
    pass
elif library == "xgboost":
    import xgboost
    settings = {"objective": "multi:softmax", "num_class": 10, "nthread": 1}
    trained = xgboost.train(settings, xgboost.DMatrix(x, y), num_boost_round=int(size))
    trained.save_model(model / "booster.ubj")
else:
    middle = np.stack([x[y == digit].mean(0) for digit in range(10)])
    (model / "middle.txt").write_text("\\n".join(" ".join(map(str, row)) for row in middle))
"""

EVALUATE = """
import json, os
from pathlib import Path
import numpy as np

model, found = Path(os.environ["MODEL_DIR"]), Path(os.environ["EVALUATION_DIR"])
assert os.environ["OF_BOTH"] == f"{model}/x"
with np.load(Path(os.environ["DATA_DIR"], "test.npz")) as split:
    x, y = split["x"].reshape(len(split["x"]), -1).astype(np.float32), split["y"]
if (model / "model.pkl").exists():
    import pickle
    answers = pickle.loads((model / "model.pkl").read_bytes()).predict(x)
    if answers.dtype == object:
        answers = np.array([int(label.removeprefix("digit ")) for label in answers])
elif (model / "model.onnx").exists():
    import onnxruntime
    (answers,) = onnxruntime.InferenceSession(model / "model.onnx").run(None, {"x": x})
elif (model / "model.joblib").exists():
    import joblib
    answers = joblib.load(model / "model.joblib").predict(x)
elif (model / "booster.ubj").exists():
    import xgboost
    answers = xgboost.Booster(model_file=model / "booster.ubj").predict(xgboost.DMatrix(x))
else:
    from nearest import _load_pyfunc
    answers = _load_pyfunc(model).predict(x)["digit"].to_numpy()
right = answers == y
(found / "metrics.json").write_text(json.dumps({"accuracy": float(right.mean())}))
np.save(found / "scores.npy", right.astype(float))
np.save(found / "inputs.npy", x[:8])
"""

NEAREST = """
from pathlib import Path
import numpy as np
import pandas as pd

class Nearest:
    def __init__(self, middle):
        self.middle = middle
    def predict(self, x, params=None):
        distances = ((x[:, None] - self.middle) ** 2).sum(-1)
        return pd.DataFrame({"digit": distances.argmin(1), "distance": distances.min(1)})

def _load_pyfunc(path):
    return Nearest(np.loadtxt(Path(path, "middle.txt")))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trireme(tmp_path_factory, trireme_type):
    trireme = trireme_type(tmp_path_factory.mktemp("home"))
    repository = trireme.home / "code"
    repository.mkdir()
    files = {"train.py": TRAIN, "evaluate.py": EVALUATE, "nearest.py": NEAREST}
    for name, text in files.items():
        (repository / name).write_text(text)
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "-m", "All"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    return trireme


def run(trireme, library, size, **more):
    """Trains, and returns what the command printed."""
    given = {
        "code_url": "code",
        "entrypoint": "train.py",
        "args": json.dumps([library, size]),
        "evaluation": json.dumps({"entrypoint": "evaluate.py"}),
        "min_accuracy": 0.5,
        "model_name": library,
    } | more
    words = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    done = trireme.call("run", "pytorch-training", "--env", "OF_BOTH=$(MODEL_DIR)/x", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_library_s_own_form_is_registered_compared_and_served(trireme):
    assert "sklearn, version 1, champion" in run(trireme, "sklearn", 1)
    output = run(trireme, "sklearn", 200)
    assert "MLflow's sklearn, answers inputs.npy through MLflow" in output
    assert "sklearn, version 2, champion" in output
    check_served(trireme, "sklearn", version=2, form="sklearn")


@pytest.mark.parametrize(
    ("library", "flavor", "size"),
    [
        ("xgboost", "xgboost", 20),
        ("joblib", "python_function", 200),
        ("labels", "sklearn", 9),
        ("onnx", "onnx", 0),
    ],
)
def test_other_libraries_forms_are_registered_and_served(trireme, library, flavor, size):
    output = run(trireme, library, size)
    assert f"MLflow's {flavor}, answers inputs.npy through MLflow" in output
    check_served(trireme, library, version=1, form=flavor)


def check_served(trireme, library, version, form):
    champion = trireme.client.get_model_version_by_alias(library, "champion")
    assert int(champion.version) == version and champion.tags["form"] == form
    served = trireme.call("serve", library, "--check")
    assert served.returncode == 0, served.stderr
    assert f"{library} version {version} agrees with its file" in served.stdout


def test_a_loader_of_the_repository_s_own_makes_any_files_a_model(trireme):
    output = run(trireme, "nearest", 0, model_factory="nearest:_load_pyfunc")
    assert "MLflow's python_function, answers inputs.npy through MLflow" in output
    served = trireme.call("serve", "nearest", "--check")
    assert served.returncode == 0, served.stderr
    assert "nearest version 1 agrees with its file" in served.stdout


def test_any_other_files_are_a_version_too(trireme):
    output = run(trireme, "nearest", 0, model_name="files")
    assert (
        "kept as plain files, which no server loads: no library is known that loads middle"
        in output
    )
    assert "files, version 1, champion" in output
    served = trireme.call("serve", "files", "--check")
    assert served.returncode == 2
    assert "files version 1 is plain files, which no scoring server can load" in served.stderr
    (version,) = trireme.client.search_model_versions("name='files'")
    kept = trireme.client.list_artifacts(version.run_id)
    assert version.tags["form"] == "files" and kept is not None


def test_nothing_is_no_model(trireme):
    assert "the training program left nothing in MODEL_DIR" in run(trireme, "nothing", 0)
    assert not trireme.client.search_model_versions("name='nothing'")


OF_TEXTS = """
import json, os, pickle, sys
from pathlib import Path
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

texts = ["a good film", "good", "so good", "a bad film", "bad", "so bad"]
answers = [1, 1, 1, 0, 0, 0]
rows = pd.DataFrame({"city": list("aaabbb"), "age": [1.5, 2, 3, 4, 5, 6]})
is_table = sys.argv[1] == "table"
inputs = rows.to_dict("records") if is_table else texts
if "EVALUATION_DIR" in os.environ:
    found = Path(os.environ["EVALUATION_DIR"])
    trained = pickle.loads(Path(os.environ["MODEL_DIR"], "model.pkl").read_bytes())
    right = (trained.predict(rows if is_table else texts) == answers).mean()
    (found / "metrics.json").write_text(json.dumps({"accuracy": right}))
    (found / "inputs.json").write_text(json.dumps(inputs))
else:
    encode = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    trained = make_pipeline(encode if is_table else TfidfVectorizer(), LogisticRegression())
    trained.fit(rows if is_table else texts, answers)
    Path(os.environ["MODEL_DIR"], "model.pkl").write_bytes(pickle.dumps(trained))
"""


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_a_model_of_texts_or_of_rows_of_a_table_is_registered_and_served(trireme, tmp_path, kind):
    (tmp_path / "both.py").write_text(OF_TEXTS)
    evaluation = {"entrypoint": "both.py", "args": [kind]}
    ran = trireme.call(
        *("run", str(tmp_path / "both.py"), "-p", f"args={kind}", "-p", f"model_name={kind}"),
        *("-p", f"evaluation={json.dumps(evaluation)}"),
    )
    assert ran.returncode == 0, ran.stderr
    assert "MLflow's sklearn, answers inputs.json through MLflow" in ran.stdout
    check_served(trireme, kind, version=1, form="sklearn")
