"""A TFJob for real: parameter server, workers and chief that know nothing but TF_CONFIG."""

import importlib.util

import pytest
from line_by_line import line_by_line

from trireme.runner.local import runner

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("tensorflow"), reason="needs TensorFlow"),
]

# Finds w and b of y = 3 x + 2, both kept by the parameter server.
PROGRAM = """
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc"
    )
    print("serving", flush=True)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w, b = tf.Variable(0.0), tf.Variable(0.0)

@tf.function
def step():
    def replica():
        x = tf.random.uniform([64], -1.0, 1.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((w * x + b - (3.0 * x + 2.0)) ** 2)
        for variable, gradient in zip((w, b), tape.gradient(loss, (w, b))):
            variable.assign_sub(0.1 * gradient)
    strategy.run(replica)

for _ in range(200):
    coordinator.schedule(step)
coordinator.join()
print(f"w {w.numpy():.1f} b {b.numpy():.1f} on {w.device}", flush=True)
"""


def test_a_parameter_server_strategy_trains_from_tf_config_alone(job, replicas, tmp_path):
    program = tmp_path / "ps.py"
    program.write_text(PROGRAM)
    command = ["python3", str(program)]
    made = job(
        "TFJob",
        {"activeDeadlineSeconds": 240},
        Chief=replicas(command),
        Worker=replicas(command, 2),
        PS=replicas(command),
    )
    said: list[tuple[str, str]] = []
    seconds = runner.run(made, tmp_path / "logs", line_by_line(lambda *line: said.append(line)))
    assert set(seconds) == {"chief-0", "ps-0", "worker-0", "worker-1"}
    assert ("chief-0", "w 3.0 b 2.0 on /job:ps/replica:0/task:0/device:CPU:0") in said
    assert {name for name, line in said if line == "serving"} == {"ps-0", "worker-0", "worker-1"}
