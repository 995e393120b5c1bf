"""Adds up over all workers of TensorFlow."""

import json
import os

import tensorflow as tf

task = json.loads(os.environ["TF_CONFIG"])["task"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
ones = strategy.run(lambda: tf.ones(()))
total = strategy.reduce(tf.distribute.ReduceOp.SUM, ones, axis=None)
print(f"{task['type']} {task['index']}: the sum is {total.numpy():.0f}", flush=True)
