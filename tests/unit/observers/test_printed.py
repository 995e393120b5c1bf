"""The reader of what programs print; printed/ has their lines, and what has to be read of them."""

import json
import math
import time
from pathlib import Path

import pytest

from trireme.observers.printed import Reader

PRINTED = Path(__file__).parent / "printed"


def read(*lines):
    """Returns the metrics of the last of some lines."""
    reader = Reader()
    readings = [reader.read(line) for line in lines]
    return readings[-1].metrics if readings[-1] else {}


def same(values):
    return {name: repr(float(value)) for name, value in values.items()}


@pytest.mark.parametrize("name", sorted(file.stem for file in PRINTED.glob("*.txt")))
def test_of_what_real_programs_print_all_metrics_are_read_and_nothing_else(name):
    expected = json.loads((PRINTED / f"{name}.json").read_text())["read"]
    reader, found = Reader(), {}
    text = (PRINTED / f"{name}.txt").read_bytes().decode()
    for number, line in enumerate(text.split("\n"), start=1):
        for state in line.rstrip("\r").split("\r")[:-1]:
            reader.read(state)  # of a bar, which whoever follows it sees now and then
        reading = reader.read(line)
        if reading and reading.metrics:
            found[str(number)] = {"step": reading.step} | reading.metrics
    assert found.keys() == expected.keys()
    for number, values in expected.items():
        step = values.pop("step")
        assert found[number].pop("step") == step
        assert same(found[number]) == same(values)


def test_the_lines_that_are_read_are_not_fewer_than_they_were():
    counts = [len(json.loads(file.read_text())["read"]) for file in PRINTED.glob("*.json")]
    assert sum(counts) >= 240


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("Epoch [3/10], Loss: 0.54", {"loss": 0.54}),
        ("Epoch 1 | loss 0.5 | acc 0.9", {"loss": 0.5, "acc": 0.9}),
        ("epoch 1  loss 0.5  acc 0.9", {"loss": 0.5, "acc": 0.9}),
        ("Epoch 1\tloss 0.5\tacc 0.9", {"loss": 0.5, "acc": 0.9}),
        ("step 10 | train loss 3.21 | val loss 3.4", {"train_loss": 3.21, "val_loss": 3.4}),
        ("step 5 | loss 3.2 | norm 0.1 | dt 12ms | tok/sec 12345", {"loss": 3.2}),
        ("Epoch 3: early stopping, patience=5", {}),
        ("Epoch 3: train_loss=0.5 val_acc=0.9", {"train_loss": 0.5, "val_acc": 0.9}),
        ("Epoch 3/10 - loss: 0.4 - accuracy: 0.8", {"loss": 0.4, "accuracy": 0.8}),
        (
            "313/313 ━━━ 2s 5ms/step - accuracy: 0.9 - loss: 0.3 - val_loss: 0.2",
            {"accuracy": 0.9, "loss": 0.3, "val_loss": 0.2},
        ),
        (
            "{'loss': 0.52, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 1.0}",
            {"loss": 0.52, "grad_norm": 1.2, "learning_rate": 5e-05},
        ),
        ("{'loss': '0.52', 'grad_norm': '1.2', 'epoch': '1'}", {"loss": 0.52, "grad_norm": 1.2}),
        ("Train Epoch: 3 [640/60000 (1%)]\tLoss: 0.523", {"loss": 0.523}),
        (
            "Test set: Average loss: 0.0481, Accuracy: 9845/10000 (98%)",
            {"test_average_loss": 0.0481, "test_accuracy": 0.9845},
        ),
        ("Epoch 1:  50%|█████     | 5/10 [00:01<00:01, 4.9it/s, loss=0.3]", {"loss": 0.3}),
        (
            "Epoch 2: 100%|██████████| 10/10 [00:00<00:00, 52.1it/s, v_num=0, train_loss=0.3]",
            {"train_loss": 0.3},
        ),
        (
            "Train: 3 [ 50/100 ( 50%)]  Loss: 3.21 (3.20)  Time: 0.100s,  50.00/s  (0.100"
            "s,  50.00/s)  LR: 1.0e-03  Data: 0.003 (0.004)",
            {"loss": 3.2, "lr": 0.001},
        ),
        (
            "Test: [  10/50]  Time: 0.500 (0.600)  Loss:  0.9000 (1.0000)  Acc@1: 80.0000"
            " (79.0000)  Acc@5: 90.0000 (91.0000)",
            {"test_loss": 1.0, "test_acc@1": 79.0, "test_acc@5": 91.0},
        ),
        ("step 250: train loss 2.1, val loss 2.2", {"train_loss": 2.1, "val_loss": 2.2}),
        ("iter 100: loss 2.3, time 12.3ms, mfu 3.1%", {"loss": 2.3}),
        (
            "[12]\tvalidation-logloss:0.123\ttrain-auc:0.9",
            {"validation-logloss": 0.123, "train-auc": 0.9},
        ),
        ("[10]\tvalid_0's l2: 0.2", {"valid_0_l2": 0.2}),
        (
            "10:\tlearn: 0.5\ttest: 0.6\tbest: 0.6 (8)\ttotal: 12ms\tremaining: 1.2s",
            {"learn": 0.5, "test": 0.6},
        ),
        ("2026-01-01 10:00:00,123 INFO epoch 3 loss 0.2", {"loss": 0.2}),
        (
            "2021-01-01 10:00:00 | INFO | train_inner | epoch 001:     11 / 12 loss=3.2, "
            "nll_loss=2.0, ppl=4.0, wps=100, ups=2, wpb=300, bsz=8, num_updates=11, lr=1e"
            "-05, gnorm=1.2, train_wall=5, wall=6",
            {"loss": 3.2, "nll_loss": 2, "ppl": 4, "lr": 1e-05, "gnorm": 1.2},
        ),
        (
            "2021-01-01 10:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | l"
            "oss 3.1 | nll_loss 2.5 | ppl 4 | wps 100 | num_updates 12",
            {"val_loss": 3.1, "val_nll_loss": 2.5, "val_ppl": 4},
        ),
        ('{"epoch": 3, "loss": 0.1}', {"loss": 0.1}),
        ('{"epoch":3,"loss":NaN,"lr":1e-3}', {"loss": math.nan, "lr": 0.001}),
        ("loss: 0.3", {"loss": 0.3}),
        ("val_f1=0.7", {"val_f1": 0.7}),
        ("accuracy 0.91", {"accuracy": 0.91}),
        ("Accuracy: 97.5%", {"accuracy": 0.975}),
        ("acc: 97.5 %", {"acc": 0.975}),
        ("loss nan", {"loss": math.nan}),
        ("epoch 3 loss inf", {"loss": math.inf}),
        ("loss -1.5e-3", {"loss": -0.0015}),
        ("[Epoch 3] [loss=0.5]", {"loss": 0.5}),
        ("Epoch: 3 | Loss: 0.5 | Acc: 0.9", {"loss": 0.5, "acc": 0.9}),
        ("EPOCH 3/10 LOSS 0.5", {"loss": 0.5}),
        ("INFO:root:epoch 3 loss 0.2", {"loss": 0.2}),
        ("INFO - loss: 0.2", {"loss": 0.2}),
        ("[2026-01-01 10:00:00,123][__main__][INFO] - Epoch 3: loss=0.2", {"loss": 0.2}),
        ("[rank0]: epoch 3 loss 0.2", {"loss": 0.2}),
        ("[1,0]<stdout>:epoch 3 loss 0.2", {"loss": 0.2}),
        ("I0101 10:00:00.123456  1234 train.py:12] step 100: loss = 0.5", {"loss": 0.5}),
        (
            "Epoch 3, train: loss 0.5, acc 0.9; val: loss 0.6, acc 0.8",
            {"loss": 0.5, "acc": 0.9, "val_loss": 0.6, "val_acc": 0.8},
        ),
        (
            "{'train': {'loss': 0.5}, 'val': {'loss': 0.6}, 'epoch': 3}",
            {"loss": 0.5, "val_loss": 0.6},
        ),
        ("Accuracy of the network on the 10000 test images: 54 %", {"accuracy": 0.54}),
        (
            "Test Accuracy of the model on the 10000 test images: 97.65 %",
            {"test_accuracy": 0.9765},
        ),
        ("[1,  2000] loss: 2.173", {"loss": 2.173}),
        ("loss: 2.303494  [   64/60000]", {"loss": 2.303494}),
        (" Accuracy: 50.9%, Avg loss: 2.150000 ", {"accuracy": 0.509, "avg_loss": 2.15}),
        (
            "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch  5.23 | loss  7.61 |"
            " ppl  2018.3",
            {"loss": 7.61, "ppl": 2018.3},
        ),
        (
            "| end of epoch   1 | time: 18.42s | valid loss  5.63 | valid ppl   278.36",
            {"valid_loss": 5.63, "valid_ppl": 278.36},
        ),
        (
            "Epoch: [1][  10/1252]\tTime  0.5 ( 0.6)\tData  0.1 ( 0.2)\tLoss 6.9e+00 (6.8"
            "e+00)\tAcc@1   0.00 (  0.10)\tAcc@5   0.50 (  0.60)",
            {"loss": 6.8, "acc@1": 0.1, "acc@5": 0.6},
        ),
        (
            "01/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][ 50/100]  lr: 1.0000e-0"
            "2  eta: 0:05:00  time: 0.1234  data_time: 0.0012  memory: 123  loss: 0.5000 "
            " loss_cls: 0.3",
            {"lr": 0.01, "loss": 0.5, "loss_cls": 0.3},
        ),
        (
            "01/01 10:00:00 - mmengine - INFO - Epoch(val) [1][79/79]    accuracy/top1: 50.0",
            {"val_accuracy/top1": 50.0},
        ),
        (
            " iteration        5/      10 | consumed samples: 40 | elapsed time per itera"
            "tion (ms): 12.3 | learning rate: 1.5E-05 | global batch size:     8 | lm los"
            "s: 1.0E+00 | loss scale: 1.0 | grad norm: 1.100 | number of skipped iteratio"
            "ns:   0 |",
            {"learning_rate": 1.5e-05, "lm_loss": 1.0, "grad_norm": 1.1},
        ),
        (
            "epoch 3/10 loss 0.25 accuracy 0.5 samples/s 12",
            {"loss": 0.25, "accuracy": 0.5, "samples_per_second": 12},
        ),
        ("Epoch 3: loss=tensor(0.5123, grad_fn=<NllLossBackward>)", {"loss": 0.5123}),
        ("accuracy                           0.97       360", {"accuracy": 0.97}),
        ("***** eval metrics *****", {}),
        ("  eval_loss               =     0.6927", {"eval_loss": 0.6927}),
        ("Validation:  50%|█████     | 2/4 [00:00<00:00, 49.59it/s, loss=0.3]", {"val_loss": 0.3}),
        ("Val Epoch: 3 Loss: 0.5", {"val_loss": 0.5}),
        ("Epoch 3 Step 450 Loss 0.5", {"loss": 0.5}),
        ("reward: -200", {"reward": -200}),
        ("episode 12: reward 200.5", {"reward": 200.5}),
        (
            "Episode 12\tLast reward: 35.00\tAverage reward: 11.58",
            {"last_reward": 35.0, "average_reward": 11.58},
        ),
        (
            "[10/25][3/60] Loss_D: 0.5 Loss_G: 2.1 D(x): 0.8 D(G(z)): 0.3 / 0.2",
            {"loss_d": 0.5, "loss_g": 2.1},
        ),
        (
            "[Epoch 0/200] [Batch 3/938] [D loss: 0.69] [G loss: 0.71]",
            {"d_loss": 0.69, "g_loss": 0.71},
        ),
        ("ValueError: loss 0.5 is bad", {}),
        ('  File "train.py", line 12, in main', {}),
        ("UserWarning: loss: 0.3", {}),
        ("2026-01-01 10:00:00 WARNING loss: 0.3", {}),
        ("lr: 0.1", {}),
        ("batch_size: 32", {}),
        ("precision: 16", {}),
        ("dropout=0.1", {}),
        ("Namespace(lr=0.1, epochs=10, loss=0.5)", {}),
        ("torch==2.13.0", {}),
        ("torch 2.13.0 numpy 2.4", {}),
        ("--lr 0.1 --loss 0.5", {}),
        ("listening on 127.0.0.1:29500", {}),
        ("port: 29500", {}),
        ("saved checkpoint at step 100 to /x/y-0.5", {}),
        ("resuming after epoch 3 and 640 samples", {}),
        ("Epoch 3 took 12.5 s", {}),
        ("Epoch 3 took 12.5 seconds", {}),
        ("epochs: 10", {}),
        ("epoch: 10", {}),
        ("3.6it/s 5ms/step", {}),
        ("loss_weight: 0.5", {}),
        ("  learning_rate: 0.001", {}),
        ("label_smoothing: 0.1", {}),
        ("reward_scale = 2.0", {}),
        ("Adam(lr=0.1)", {}),
        ("(0): Dropout(p=0.1, inplace=False)", {}),
        ("exit code: 1", {}),
        ("[2026-01-01 10:00:00] epoch 3 started", {}),
        ("Using loss function: 3", {}),
        ("CrossEntropyLoss()", {}),
        ("no loss here: 3", {}),
        ("loss 3rd", {}),
        ("loss 1.25s", {}),
        ("loss: 1,234.5", {}),
        ("Total training time: 0.00 seconds.", {}),
        ("Epoch 3: time: 12.5", {}),
        ("epoch 3: val 5 of 10", {}),
        ("*** Best metric: 85.1 (epoch 3)", {}),
        ("Epoch 00003: val_loss improved from 0.5 to 0.4, saving model to x.h5", {}),
        ("Adjusting learning rate of group 0 to 1.0000e-03.", {}),
        ("EarlyStopping counter: 3 out of 10", {}),
        ("NCCL version 2.21.5", {}),
        ("error: 0", {}),
        ("0 errors, 0 warnings", {}),
        ("map 5", {}),
        ("return 0", {}),
        ("GPU 0: 50.2 GB", {}),
        ("Epoch 1/10", {}),
        ('INFO:werkzeug:127.0.0.1 - - [01/Jan/2026 10:00:00] "GET / HTTP/1.1" 200 -', {}),
    ],
)
def test_a_line_tells_metrics(line, metrics):
    assert same(read(line)) == same(metrics)


def test_a_line_tells_where_it_is():
    reader = Reader()
    said = reader.read("Epoch [3/10], Step [450/1000], Loss: 0.3").position
    assert (said.epoch, said.epochs, said.done, said.total, said.share) == (3, 10, 450, 1000, 0.45)


def steps(*lines):
    reader = Reader()
    readings = [reader.read(line) for line in lines]
    return [reading.step for reading in readings if reading and reading.metrics]


def test_steps_within_an_epoch_go_on_from_one_epoch_to_the_next():
    assert steps("Epoch 1/2", "5/10 ━━━ 1s - loss: 2", "Epoch 2/2", "5/10 ━━━ 1s - loss: 1") == [
        *(5, 15)
    ]
    bars = [f"Epoch {n}:  50%|███  | 5/10 [00:01<00:01, 4.9it/s, loss=0.3]" for n in (0, 1, 2)]
    assert steps(*bars) == [5, 15, 25]
    assert steps("[1,  2000] loss: 2", "[1,  4000] loss: 2", "[2,  2000] loss: 1") == [
        *(2000, 4000, 6000)
    ]


def test_a_line_at_the_end_of_an_epoch_is_of_its_last_step():
    bar = "Epoch {}:  50%|███  | 5/10 [00:01<00:01, 4.9it/s, loss=0.3]"
    assert steps(bar.format(1), "Epoch 1: loss=0.2", bar.format(2), "Epoch 2: loss=0.1") == [
        *(5, 10, 15, 20)
    ]


def test_a_bar_of_the_whole_counts_its_own_steps():
    lines = ["epoch 1/2", "loss: 1 [10/40]", "epoch 2/2", "loss: 1 [30/40]"]
    assert steps(*lines) == [10, 30]


def test_a_line_without_a_step_is_of_the_one_before():
    assert steps("Epoch 7", "val loss: 0.5") == [7]
    assert steps("loss: 0.5") == [None]


def test_a_training_that_begins_again_counts_again():
    assert steps("epoch 1 loss 3", "epoch 2 loss 2", "epoch 1 loss 3") == [1, 2, 1]


def test_a_name_that_is_asked_for_is_read_whatever_it_is():
    assert Reader(["pixels"]).read("pixels 12").metrics == {"pixels": 12}
    assert Reader().read("pixels 12") is None


def test_a_table_of_a_name_and_a_value_ends():
    head = "       Test metric             DataLoader 0"
    assert read(head, "─" * 40, "        test_acc          0.9") == {"test_acc": 0.9}
    assert read(head, "─" * 40, "done", "        Total          12.5") == {}


@pytest.mark.parametrize(
    "line",
    [
        "1%|" * 400_000,
        "loss " * 200_000,
        "loss" + " " * 1_000_000 + "1",
        "a" * 1_000_000 + " 1",
        "x 1 " * 250_000,
        "[" * 1_000_000 + "INFO",
        "a.b-" * 250_000 + " INFO 1",
        "{'a': " * 100_000 + "1",
        "(" * 1_000_000,
        "loss 0." + "0" * 1_000_000,
        "epoch" + " x" * 500_000,
        "epoch 999999999999999999999/1 loss 1e999",
        "\x1b[" * 500_000,
        "\x00\ud800 loss 1",
    ],
)
def test_a_hostile_line_takes_no_time(line):
    started = time.process_time()
    for text in ("epoch  loss  acc", line):
        Reader().read(text)
    assert time.process_time() - started < 0.2


def test_what_is_no_number_is_kept_as_such():
    assert math.isnan(read("epoch 1 loss nan")["loss"])


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        (
            ["step 100 loss 3", "step 200 loss 2", "epoch 1 loss 2.5", "step 300 loss 1"],
            [100, 200, 200, 300],
        ),
        (
            ["step 100 loss 3", "step 200 loss 2", "epoch 1 loss 2.5", "step 100 loss 1"],
            [100, 200, 200, 300],
        ),
        (["Epoch 1/2", "batch 20 loss 3", "Epoch 2/2", "batch 10 loss 1"], [20, 30]),
        (["iter 20/100: loss 3", "epoch 1: loss 2", "iter 10/100: loss 1"], [20, 100, 110]),
        (["iter 20/100: loss 3", "epoch 0: loss 2", "iter 10/100: loss 1"], [20, 100, 110]),
    ],
)
def test_an_epoch_and_its_steps_are_on_one_scale(lines, steps):
    reader = Reader()
    readings = [reader.read(line) for line in lines]
    found = [reading for reading in readings if reading and reading.metrics]
    assert [reading.step for reading in found] == steps
    assert {reading.unit for reading in found} == {"step"}


def test_epochs_are_epochs_where_no_steps_are_told():
    reader = Reader()
    lines = ("step 5 loss 9", "epoch 1 loss 3", "epoch 2 loss 2", "epoch 3 loss 1")
    found = [reader.read(line) for line in lines]
    assert [(reading.step, reading.unit) for reading in found] == [
        (5, "step"),
        (5, "step"),
        (2, "epoch"),
        (3, "epoch"),
    ]
