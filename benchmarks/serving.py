"""Requests to ``trireme serve``'s scoring server, against ONNX Runtime in a loop.

The reference network answers one image of 8 by 8, and 64 at a time. Each client keeps its
connection and asks again as soon as it is answered; the loop runs the same file on the same images,
in as many threads as there are clients. The two take turns; printed are the medians of requests per
second and of the 99th percentile of the time for one, and the medians of their ratios. The server
reads and writes numbers as JSON, which costs it more than this network does.

    python benchmarks/serving.py [ROUNDS]
"""

import http.client
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import mlflow
import numpy as np
import onnx
import torch
from evaluation import SHAPE, classifier, in_turn, write_onnx

from trireme.deployment.serving import JSON, started
from trireme.deployment.smoke_test import body
from trireme.evaluation.onnx_file import load_onnx
from trireme.runner.local.ports import Ports

SECONDS = 3.0  # of each measurement
CLIENTS, BATCHES = (1, 4), (1, 64)

Ask = Callable[[], object]


def make(directory: Path) -> Path:
    """Writes the model as MLflow logs it; returns its directory."""
    torch.manual_seed(0)
    images = np.zeros((2, 1, 8, 8), np.float32)
    network = classifier.Classifier(**SHAPE).eval()
    write_onnx(network, images, directory / "model.onnx")
    signature = mlflow.models.infer_signature(images, np.zeros((2, 10), np.float32))
    mlflow.onnx.save_model(
        onnx.load(directory / "model.onnx"),
        directory / "model",
        signature=signature,
        pip_requirements=[],
        onnx_execution_providers=["CPUExecutionProvider"],
    )
    return directory / "model"


def asking(url: str, request: bytes) -> Ask:
    """Returns what sends a request over a connection of its own."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)

    def ask() -> None:
        connection.request("POST", address.path, request, JSON)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content

    return ask


def rate_and_tail(asks: list[Ask]) -> tuple[float, float]:
    """Asks in as many threads as there are clients; returns asks per second and the p99 in ms."""
    end = time.monotonic() + SECONDS

    def client(ask: Ask) -> list[float]:
        times = [time.monotonic()]
        while times[-1] < end:
            ask()
            times.append(time.monotonic())
        return np.diff(times).tolist()

    with ThreadPoolExecutor(len(asks)) as threads:
        latencies = np.concatenate(list(threads.map(client, asks)))
    return len(latencies) / SECONDS, 1000 * float(np.quantile(latencies, 0.99))


def compare(url: str, file: Path, clients: int, batch: int, rounds: int) -> None:
    """Measures the server and the loop in turn, and prints a line."""
    images = np.random.default_rng(0).random((batch, 1, 8, 8), np.float32)
    answer, request = load_onnx(file), body(images).encode()
    served, looped = in_turn(
        rounds,
        # Connected anew: the server ends connections that rest while the loop runs.
        lambda: rate_and_tail([asking(url, request) for _ in range(clients)]),
        lambda: rate_and_tail([lambda: answer(images)] * clients),
    )
    cells = [f"{clients:>11} {batch:>6}"]
    for column, form in ((0, "{:10,.0f} {:10,.0f} {:8.4f}"), (1, "{:10.2f} {:8.2f} {:8.1f}")):
        pairs = [(one[column], other[column]) for one, other in zip(served, looped, strict=True)]
        ratio = statistics.median(one / other for one, other in pairs)
        cells.append(form.format(*map(statistics.median, zip(*pairs, strict=True)), ratio))
    print("  ".join(cells), flush=True)


def main() -> None:
    """Starts the server, measures and prints the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ports = Ports()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        files = make(directory)
        with started(files, ports.take(), lambda line: None) as server:
            server.first_answer(body(np.zeros((1, 1, 8, 8), np.float32)))
            print(f"medians of {rounds} rounds")
            print(f"{'':<18}  {'requests/s':>30}  {'p99 in ms':>28}")
            heads = (
                "connections  batch      served       loop    ratio      served     loop    ratio"
            )
            print(heads, flush=True)
            for batch in BATCHES:
                for clients in CLIENTS:
                    compare(server.url, directory / "model.onnx", clients, batch, rounds)
    ports.close()


if __name__ == "__main__":
    main()
