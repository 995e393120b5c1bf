"""The default pipeline's work as a person would write it by hand, in one plain script.

Clone, stage, ``torchrun --nproc-per-node 2`` on the same trainer, evaluate, export, and the same
records in MLflow. It is what ``trireme run pytorch-training`` is measured against.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
TRAINER = "trainers/pytorch_classifier.py"

home = Path(sys.argv[1])
workspace = home / "runs" / str(time.time_ns())
workspace.mkdir(parents=True)
seconds: dict[str, float] = {}


@contextmanager
def timed(step):
    started = time.monotonic()
    yield
    seconds[step] = time.monotonic() - started


with timed("start"):
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{home / 'mlflow.db'}")
    if not mlflow.get_experiment_by_name("by-hand"):
        mlflow.create_experiment("by-hand", (home / "mlartifacts").as_uri())
    mlflow.set_experiment("by-hand")
    parent = mlflow.start_run()
    mlflow.log_params({"workers": 1, "min_accuracy": 0.9, "seed": 0, "dataset": "digits"})

with timed("checkout"), mlflow.start_run(run_name="checkout", nested=True):
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", REPOSITORY.as_uri(), str(workspace / "code")],
        check=True,
    )
    commit = subprocess.run(
        ["git", "-C", str(workspace / "code"), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    mlflow.set_tag("git.commit", commit)

with timed("dataset"), mlflow.start_run(run_name="dataset", nested=True):
    import hashlib

    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x = (digits.images[order] / 16).astype(np.float32)[:, None]
    y = digits.target[order].astype(np.int64)
    held_out = len(y) // 5
    data = workspace / "data"
    data.mkdir()
    np.savez(data / "train.npz", x=x[held_out:], y=y[held_out:])
    np.savez(data / "test.npz", x=x[:held_out], y=y[:held_out])
    content = b"".join((data / name).read_bytes() for name in ("train.npz", "test.npz"))
    mlflow.set_tag("dataset.fingerprint", hashlib.sha256(content).hexdigest())

with timed("train"), mlflow.start_run(run_name="train", nested=True) as run:
    environment = os.environ | {
        "DATA_DIR": str(data),
        "CHECKPOINT_DIR": str(workspace / "checkpoints"),
        "MODEL_DIR": str(workspace / "model"),
        "OMP_NUM_THREADS": "1",
        "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri(),
        "MLFLOW_EXPERIMENT_ID": run.info.experiment_id,
        "MLFLOW_RUN_ID": run.info.run_id,
    }
    log = workspace / "train.log"
    with log.open("w") as output:
        subprocess.run(
            [str(BIN / "torchrun"), "--standalone", "--nproc-per-node=2", TRAINER],
            cwd=workspace / "code",
            env=environment,
            stdout=output,
            stderr=output,
            check=True,
        )
    mlflow.log_artifact(str(log))
    mlflow.log_artifacts(str(workspace / "model"), "model")

with timed("evaluate"), mlflow.start_run(run_name="evaluate", nested=True):
    import torch
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    sys.path.insert(0, str(workspace / "code" / "trainers"))
    from pytorch_classifier import Classifier

    saved = torch.load(workspace / "model" / "model.pt", weights_only=True)
    network = Classifier(**saved["arguments"])
    network.load_state_dict(saved["state_dict"])
    network.eval()
    inputs = torch.from_numpy(x[:held_out])
    with torch.inference_mode():
        logits = network(inputs).numpy()
    predicted = logits.argmax(1)
    accuracy = float((predicted == y[:held_out]).mean())
    precision, recall, _, _ = precision_recall_fscore_support(y[:held_out], predicted)
    metrics = {f"precision_{index}": value for index, value in enumerate(precision)}
    metrics |= {f"recall_{index}": value for index, value in enumerate(recall)}
    mlflow.log_metrics(metrics | {"accuracy": accuracy})
    report = workspace / "report.html"
    report.write_text(f"<pre>{accuracy}\n{confusion_matrix(y[:held_out], predicted)}</pre>")
    mlflow.log_artifact(str(report))
    if accuracy < 0.9:
        sys.exit("not good enough")

with timed("export"), mlflow.start_run(run_name="export", nested=True):
    import mlflow.onnx
    import onnx
    import onnxruntime

    exported = workspace / "exported"
    exported.mkdir()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (inputs[:2],), dynamic_shapes=({0: batch},))
    torch.export.save(program, exported / "model.pt2")
    torch.onnx.export(
        program,
        f=exported / "model.onnx",
        dynamo=True,
        input_names=["input"],
        output_names=["output"],
        external_data=False,
        verbose=False,
    )
    with torch.inference_mode():
        again = torch.export.load(exported / "model.pt2").module()(inputs[:64]).numpy()
    session = onnxruntime.InferenceSession(
        exported / "model.onnx", providers=["CPUExecutionProvider"]
    )
    once_more = session.run(None, {"input": inputs[:64].numpy()})[0]
    differences = [float(np.abs(other - logits[:64]).max()) for other in (again, once_more)]
    assert max(differences) < 1e-3
    mlflow.log_metrics({"difference_pt2": differences[0], "difference_onnx": differences[1]})
    mlflow.log_artifacts(str(exported), "exported")
    mlflow.onnx.log_model(
        onnx.load(exported / "model.onnx"),
        name="model",
        signature=mlflow.models.infer_signature(x[:2], logits[:2]),
        registered_model_name="by-hand",
        pip_requirements=["mlflow", "onnxruntime", "numpy"],
        onnx_execution_providers=["CPUExecutionProvider"],
    )

mlflow.end_run()
print(json.dumps({"accuracy": accuracy, "seconds": seconds}))
