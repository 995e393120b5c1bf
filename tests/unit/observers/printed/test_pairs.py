"""Metrics on a line of a program, and what is none."""

import math
from functools import partial

import pytest

from trireme.observers.printed.reader import Reader

exactly = partial(pytest.approx, rel=0, abs=0, nan_ok=True)


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
    reading = Reader().read(line)
    assert (reading.metrics if reading else {}) == exactly(metrics)


def test_what_is_no_number_is_kept_as_such():
    reading = Reader().read("epoch 1 loss nan")
    assert reading and math.isnan(reading.metrics["loss"])


def test_a_name_that_is_asked_for_is_read_whatever_it_is():
    assert Reader(["pixels"]).read("pixels 12").metrics == {"pixels": 12}
    assert Reader().read("pixels 12") is None
