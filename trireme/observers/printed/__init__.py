"""The one reader of what training programs print: metrics, and how far the program is.

A line is read as whoever watches would: ``Epoch [3/10], Loss: 0.54``, the bars of tqdm, Keras and
rich with what stands behind them, the dicts of transformers, the tables of fastai, spaCy,
ultralytics and Lightning, the lines of XGBoost, LightGBM, CatBoost, timm, fairseq and nanoGPT.

- Names are in small letters, as in ``train_loss`` for ``train loss``. What a line, or a part of it,
  says of a validation or test gets that before its name: ``test_accuracy``.
- 97.5% is 0.975, and 98/100 is 0.98. Of a value and its mean, ``3.21 (3.20)``, the mean counts.
- A line tells metrics if it tells an epoch, a step or the like, too, or names one of the usual
  metrics. Parameters, times, speeds, sizes, warnings and tracebacks are none.
- A value's step is that of its line; where that counts within an epoch, those of the epochs before
  are added. A line that tells none is of the step before it.

``position`` reads how far the program is, ``pairs`` names and values, which ``names`` knows for
metrics or others, ``tables`` rows under a head; ``reader`` reads one line after another.
"""
