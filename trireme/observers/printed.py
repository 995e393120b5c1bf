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
"""

import math
import re
from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

from trireme.plain import plain

WIDTH = 1000  # characters of a line, or of the last state of a bar, that are looked at
LONG = 60  # characters of a metric's name

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?(?-i:[kMGTP])?)"  # of steps
_TELLS = re.compile(r"\d[kMGTP]?\s{0,3}/\s{0,8}\d|poch|POCH|\d\s{1,3}(?:of|OF)\s{1,3}\d|Train: \d")
_TQDM = re.compile(rf"\d{{1,3}}%\|[^|]*\|\s*{_NUMBER}/{_NUMBER} \[([^\]]*)")
_RICH = re.compile(rf"[━╸╺─]{{3,}}\s+{_NUMBER}/{_NUMBER}\s")
_KERAS = re.compile(rf"^\s*{_NUMBER}/{_NUMBER} (?:\[[=>.]+\]|[━╸╺]+|-) .*\d")
_BRACKETS = re.compile(rf"\[\s*{_NUMBER}\s*/\s*{_NUMBER}\s*(\(\s*\d+(?:\.\d+)?%\s*\))?\s*\]")
_STEPS = re.compile(
    rf"\b(?:global[ _])?(?:step|iter|iteration|batch|update|round)s?\b(?:\s{{1,12}}|\W{{0,3}})"
    rf"{_NUMBER}\s*(?:/|\bof\b)\s*{_NUMBER}",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    rf"{_NUMBER}\s*/\s*{_NUMBER}\s+(?:steps|iterations|iters|batches|updates)\b", re.IGNORECASE
)
_IN_EPOCH = re.compile(rf"\bepoch \d+:\s+{_NUMBER} / {_NUMBER} ")  # of fairseq
_EPOCH = re.compile(
    r"\bepochs?\b(?:\(train\)\s{0,8})?\W{0,4}(\d{1,9}(?:\.\d{1,6})?)"
    r"(?![\d.]*%)(?:\s*(?:/|\bof\b)\s*(\d{1,9})\b)?"
    r"|\bTrain: (\d{1,9}) (?=\[)",  # of timm
    re.IGNORECASE,
)
_TRAINS = re.compile(r"\b(?:train|fit|epoch(?!\((?:val|test)\)))", re.IGNORECASE)
_OTHER = re.compile(
    r"\b(?:val|valid|eval|test|predict|sanity|infer|generat|sampl|scor|comput|"
    r"scan|load|download|upload|sav|read|writ|fetch|extract|index|cach|compil|build|"
    r"map|filter|token|pack|convert|prepar|preprocess|process|shard|resolv|running tokenizer)",
    re.IGNORECASE,
)
_BYTES = re.compile(r"\d[kMGTP]?i?B/s")
_POWERS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}

# What logging, glog, torchrun, Ray and mpirun put before a line.
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_STAMP = rf"[\[(]?(?:(?:\d{{4}}[-/.]\d\d[-/.]\d\d|\d\d/\d\d)[T_, ]{{1,2}})?{_TIME}[\])]?(?![\w:])"
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_BEFORE = re.compile(
    rf"[\s|]*(?:{_STAMP}|[\[(](?:default|rank ?)\d+[\])]:?|\(\w+ pid=[^)]{{1,60}}\)|"
    rf"\[\d+,\d+\]<std\w+>:|[\[(]?(?P<level>{_LEVEL})\b[\])]?(?::[\w.]+:)?|"
    rf"(?P<short>[IWEF])\d{{4,8}} {_TIME}\s+\d+ \S{{1,80}}\]|"
    rf"[\s|:-]*(?:\[?[\w.]{{1,60}}+\]?[\s|:-]*){{1,2}}(?=\[?\b{_LEVEL}\b))[ ,|:-]*"
)
_FAULTS = ("WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "W", "E", "F")
_NO_METRICS = re.compile(
    r"\s*(?:File \"|Traceback |at \S+\(|#\d+ +0x|[Ww]arning\b|usage: |Namespace\(|"
    r"\$ |\+ |raise |assert |[\w.]+\([fr]?['\"])|"
    r".*?(?:\b[A-Z]\w*(?:Error|Exception|Warning)\b|\b\w+\((?:\w+=[^()]*)\)\s*$|\s--\w)"
)

_VALUE = r"[-+]?(?>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
_MEAN = rf"\s{{0,8}}\(\s{{0,8}}({_VALUE})\s{{0,8}}%?\s{{0,8}}\)"
_SPEED = r"\s?[A-Za-z]+/(?:s|sec|second|step|it|iter|batch|epoch|sample)\b(?!\s*[:=]?\s*[-+.]?\d)"
_UNIT = r"\s(?:s|ms|us|sec|secs|seconds|min|mins|minutes|hours|[KMGT]i?B)\b"
_PAIR = re.compile(
    rf"(?<![\w./@\\-])(?P<name>[A-Za-z_][\w./@-]{{0,80}}(?:'s [\w./@-]{{1,40}})?)"
    r"(?P<quote>['\"]?)(?:\s{0,4}\([\w%]{1,8}\))?(?P<by>\s{0,40}[:=]\s{0,40}|\s{1,40})"
    rf"(?:tensor\(|np\.float\d+\(|['\"\[(])?\s{{0,4}}(?P<value>{_VALUE})"
    rf"(?P<percent>\s?%)?(?!\w|[.,:]\d|-\d|\s?[━╸╺─|█]{{2}}|%?\||{_SPEED}|{_UNIT})"
    rf"(?:\s{{0,3}}/\s{{0,3}}(?P<of>\d{{1,12}})\b)?(?:{_MEAN})?"
)
_OF = re.compile(
    r"\b(?P<name>accuracy|acc|loss|error|f1|precision|recall) (?:of|on|for|over) [^:=]{1,80}"
    rf"[:=]\s{{0,4}}(?P<value>{_VALUE})(?P<percent>\s?%)?(?!\w|[.,:]\d|-\d)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?<![\w./-])(?:global[ _]|train[ _]|num[ _])?(?:step|iter|iteration|update|updates|round|"
    r"episode|batch)['\"]?\s{0,3}[:=#]?\s{0,3}['\"\[(]?(\d{1,12})\b(?!\s{0,3}/|[.,]\d|%)",
    re.IGNORECASE,
)
_BOOSTED = re.compile(r"\s*(?:\[(\d{1,9})\]\t|(\d{1,9}):\s+(?:learn|test): )")  # of trees
_NUMBERED = re.compile(r"\s*\[(\d{1,9}),\s{1,8}(\d{1,12})\]")  # an epoch, and a batch of it
_HINTS = re.compile(r"\d|\bnan\b|\binf", re.IGNORECASE)

_PARTS = {
    **dict.fromkeys(("train", "training"), ""),
    **dict.fromkeys(("val", "valid", "validation", "validate", "validating"), "val_"),
    **dict.fromkeys(("test", "testing"), "test_"),
    **dict.fromkeys(("eval", "evaluation", "evaluate", "evaluating"), "eval_"),
    "dev": "dev_",
}
"""What words say which data a line, or a part of it, is about; and what that gives a name."""


def _each(words: str) -> list[str]:
    return words.split()


_WORDS_OF_PARTS = "|".join(sorted(_PARTS, key=len, reverse=True))
_PART = re.compile(
    rf"(?<![\w./-])(?P<first>{_WORDS_OF_PARTS})['\"]?(?: (?:set|results?|metrics?|error))?"
    r"\s{0,4}(?:\(\w{1,8}\)\s?)?[:|\])](?!\s{0,20}['\"]?[-+.\d])",
    re.IGNORECASE,
)
_FIRST = re.compile(rf"[\W_]{{0,6}}(?:epoch\()?(?P<first>{_WORDS_OF_PARTS})\b", re.IGNORECASE)

_QUALIFIERS = {
    *_PARTS,
    *_each(
        "average avg mean running total batch smoothed best final overall macro micro "
        "weighted last balanced box cls obj g d generator discriminator policy value critic "
        "actor lm mlm kl ctc attention teacher student reconstruction word token pixel class "
        "learning grad gradient absolute squared root relative percentage f1 roc pr top-1 "
        "top-5 top1 top5"
    ),
}
"""Words that, before a name, belong to it: ``train loss``."""

_KNOWN = frozenset(
    _each(
        "loss losses nll acc accuracy top1 top5 f1 auc auroc auprc ap map iou miou dice "
        "f1score jaccard precision recall bleu sacrebleu rouge meteor chrf cider wer cer "
        "perplexity ppl bpc bpb reward rewards return rew score mse mae rmse rmsle mape smape "
        "r2 error err logloss ndcg mrr kl kld elbo psnr ssim fid entropy fitness mcc kappa "
        "sensitivity specificity em"
    )
)
"""Words of which one makes a name that of a metric, also in a line that tells no position."""

_ENDINGS = ("loss", "acc", "accuracy", "mse", "mae", "auc", "reward", "ppl", "iou")
_ANY_SIZE = ("loss", "reward", "rew", "return", "perplexity", "ppl", "nll", "elbo")
"""Of these a whole number may be a value that stands alone."""

_AMBIGUOUS = {*_each("map error err score return ap em precision recall r2 top1 top5 fitness")}
"""Those that are other words, too."""

_PARAMETERS = frozenset(
    _each(
        "weight weights scale coef coeff coefficient factor threshold thresh smoothing fn "
        "func function type name every interval freq frequency patience delta alpha beta "
        "gamma target margin power clip decay dropout eps epsilon min max init mode limit"
    )
)

_OTHERS = frozenset(
    _each(
        "time eta elapsed remaining left took duration dur runtime sec secs second seconds s "
        "ms min mins minute minutes hour hours date timestamp wall mem memory ram vram gpu "
        "gpus cpu cpus rank size bsz seed pid port workers num version line code exit status "
        "id idx index device node nodes instances images total fps wps ups wpb tps tflops "
        "flops flos mfu throughput speed qps utilization best epoch epochs step steps iter "
        "iters iteration iterations it batch batches round rounds episode episodes sample "
        "samples token tokens example examples parameters params files layers hosts processes "
        "replicas cores threads bytes mb gb update updates timesteps data per support"
    )
)
"""How names end that are no metrics: times, speeds, sizes, counts, positions."""

RATE = "samples_per_second"
"""The one speed that is read, as ``samples/s 12``, which the trainers print."""

_HEADER = re.compile(r"[\s|│┃]*(?:epoch|ep|e|iter|iteration|step|round|class)\b", re.IGNORECASE)
_GAP = " " * 40
_WIDE = re.compile(" {40,}")  # which patterns would try from each of its letters
_RULER = re.compile(r"[\s|+:=─━┏┓┗┛┡┩┢┪┳┻╇┼├┤└┘┴┌┐┬╷╵-]*$")
_NO_COLUMN = re.compile(rf"[:,;!?]|^[-+.\d]|\s{_VALUE}%?$")
_BARS = re.compile(r"[|│┃]")
_BAR_AFTER = re.compile(r"\)?:\s+\d{1,3}%.*|:$")
_OF_LIGHTNING = re.compile(r"[\s│┃|]*(?:Test|Validate|Runningstage\.\w+) metric\b")
_SECTION = re.compile(r"\s*\| ([a-z_]{1,30}/)\s+\|\s+\|\s*$")
_CELL = re.compile(rf"(?:{_VALUE}%?|\d+/\d+|[\d:]+(?:\.\d+)?s?m?|[\d.]+[KMG]i?B?|all|-|\+|)")
_POSITIONS = {"e": "epoch", "ep": "epoch", "#": "step", "iter": "step", "iteration": "step"} | {
    name: name for name in ("epoch", "step")
}


class Position(NamedTuple):
    """What a line says of how far the program is.

    Attributes:
        is_training: Whether it says that these are steps of training.
        is_over: Whether it tells figures of the epoch, which is over then.
        is_aside: Whether the epoch is only mentioned among figures, as by Hugging Face.
    """

    epoch: float | None = None
    epochs: int = 0
    done: float = 0.0
    total: float = 0.0
    unit: str = "step"
    is_training: bool = False
    is_over: bool = False
    is_aside: bool = False

    @property
    def share(self) -> float | None:
        """The part of its steps that is done, from 0 to 1; None where it tells none."""
        return min(1.0, self.done / self.total) if self.total else None


class Reading(NamedTuple):
    """What a line tells: metrics by name, of which step they are, and what it says of that.

    Attributes:
        step: The step of the metrics; None where no line has told any yet.
        unit: What that counts: ``step``, ``sample`` or ``epoch``.
    """

    metrics: dict[str, float]
    step: int | None = None
    position: Position | None = None
    unit: str = "step"


class _Table(NamedTuple):
    """What the columns of a table are called; without any its rows are a name and values."""

    columns: tuple[str, ...] = ()
    section: str = ""


class Place(NamedTuple):
    """Where in a program's output a line stands: what lines before it have told.

    Attributes:
        first: The number of the first epoch.
        aside: The epoch that was mentioned last, where it only is.
        asides: How many there are, by their steps.
        done: The steps that were told last.
        total: Of how many.
        is_sure: Whether these steps have come with metrics, so another bar is of something else.
        before: The steps of the epochs before, where no line tells how many these have.
        per_epoch: The steps of an epoch, where they come with metrics; 0: that is not known.
        goes_on: Whether steps go on from one epoch to the next.
        is_new_epoch: Whether an epoch has begun since they were told.
        has_steps: Whether steps that have no total have been told since an epoch was.
        is_over: Whether the epoch was first told when it was over.
        is_of_parts: Whether epochs are told in parts, so that they are no steps.
        step: The step of the last line that told one.
        unit: What that counts.
        part: What the last line with metrics was about.
    """

    epoch: float | None = None
    first: int = 1
    aside: float = 0.0
    asides: float = math.inf
    done: float = 0.0
    total: float = 0.0
    is_sure: bool = False
    before: float = 0.0
    per_epoch: float = 0.0
    goes_on: bool = False
    is_new_epoch: bool = False
    has_steps: bool = False
    is_over: bool = False
    is_of_parts: bool = False
    step: int | None = None
    unit: str = "step"
    part: str = ""
    table: _Table | None = None


class Reader:
    """Reads the lines of one replica, one after another.

    Attributes:
        place: What the lines so far have told that the next one may be without.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        """Starts with nothing read; ``known`` are further names of metrics."""
        self.place = Place()
        self._known = {*known}

    def read(self, line: str) -> Reading | None:
        """Takes in a line, or what it has become; returns what it tells, if that is anything."""
        reading = self._read(line)
        return reading and reading._replace(unit=self.place.unit)

    def _read(self, line: str) -> Reading | None:
        text = _body(line)
        if not text:
            return None
        if begun := _table(text):
            self.place = self.place._replace(table=begun)
            return None
        if not (self.place.table or _HINTS.search(text)):
            return None
        if table := self.place.table:
            if cells := _cells(text, table):
                return self._row(cells, text)
            if not table.columns and not _RULER.match(text):
                self.place = self.place._replace(table=None)
        if _NO_METRICS.match(text):
            return None
        said = position(text)
        metrics = _metrics(text, said, self._known)
        if said and metrics and self._evaluates(said):
            metrics = {
                name if _has_part(name) else f"eval_{name}": metrics[name] for name in metrics
            }
            return Reading(metrics, self.place.step)
        if not metrics and said is None:
            return None
        part = _parts(text)[0][1]
        if text.lstrip().startswith("* "):  # a sum of what the lines before are about
            part = self.place.part
            metrics = {name if _has_part(name) else part + name: metrics[name] for name in metrics}
        if metrics:
            self.place = self.place._replace(part=part)
        step = self._step(text, said, bool(metrics))
        return Reading(metrics, step, said)

    def _evaluates(self, said: Position) -> bool:
        """Tells whether a bar is of something after an epoch, as of Keras' ``evaluate``."""
        place = self.place
        is_another = bool(said.total) and said.epoch is None and said.total != place.total
        return is_another and place.is_sure and place.epoch is not None and not place.is_new_epoch

    def _row(self, cells: list[str], text: str) -> Reading | None:
        table = self.place.table
        assert table
        if not table.columns:
            name, *values = (cell for cell in cells if cell)
            found = {}
            for column, value in enumerate(values):
                called = name_of(f"{table.section}{name}") + (f"_{column}" if column else "")
                if not _is_other(called):
                    found[called] = float(value)
            return Reading(found, self.place.step) if found else None
        found, said, step = {}, Position(), None
        for name, cell in zip(table.columns, cells, strict=True):
            number = re.fullmatch(rf"({_VALUE})(%)?", cell)
            if name == "epoch" and (at := re.fullmatch(r"(\d+)(?:\.\d+)?(?:/(\d+))?", cell)):
                said = said._replace(epoch=float(at[1]), epochs=int(at[2] or 0), is_over=True)
            elif name == "step" and cell.isdigit():
                step = int(cell)
            elif number and name and not _is_other(name):
                found[name] = float(number[1]) / (100 if number[2] else 1)
        if bar := _RICH.search(text) or _TQDM.search(text):
            total = _value(bar[2])
            if said.epoch is not None and total:
                done = min(_value(bar[1]), total)
                said = said._replace(done=done, total=total, is_over=False)
        if step is not None:
            self.place = self.place._replace(step=step, unit="step", epoch=said.epoch)
        elif said.epoch is not None:
            step = self._step("", said, bool(found))
        return Reading(found, self.place.step if step is None else step, said)

    def _step(self, text: str, said: Position | None, has_metrics: bool) -> int | None:
        """Returns the step of a line's metrics, and keeps it for the lines after."""
        place = self.place
        epoch = said.epoch if said and not said.is_aside else None
        if epoch is not None and epoch == int(epoch):
            if place.epoch is not None and epoch < place.epoch:  # it has been started again
                place = Place(first=place.first, table=place.table)
            if epoch == 0:
                place = place._replace(first=0)
        at = _BOOSTED.match(text)
        numbered = None if at else _NUMBERED.match(text)
        at = at or (None if numbered or (said and said.total) else _STEP.search(text))
        if said and said.total:
            is_bare = said.epoch is None and not has_metrics and said.total != place.total
            if is_bare and (place.is_sure or place.done < place.total):
                return place.step  # a bar of something else
            place = _with_steps(place, said, epoch, has_metrics)
        elif at or numbered:
            if not has_metrics:
                return place.step
            if numbered:
                epoch, done = float(numbered[1]), float(numbered[2])
            elif at:
                done = float(next(filter(None, at.groups())))
            before = place.before
            is_next = epoch is not None and place.epoch is not None and epoch > place.epoch
            is_next = is_next or (place.is_new_epoch and not place.total)
            if is_next and done < place.done:
                before += place.done
            place = place._replace(
                done=done, before=before, step=int(before + done), unit="step", has_steps=True
            )
        elif said and said.is_aside:
            assert said.epoch is not None
            if said.epoch < place.aside:  # another training
                place = place._replace(done=0.0, total=0.0, is_sure=False, asides=math.inf)
            is_part = place.is_of_parts or said.epoch != int(said.epoch)
            step = None if is_part else int(said.epoch)
            if place.total and place.done and said.epoch:
                # What a bar has become is known twice a second, so there may be more steps than it
                # tells, and less epochs; the epoch is exact.
                epochs = min(place.asides, max(1.0, round(place.total * said.epoch / place.done)))
                place = place._replace(asides=epochs)
                step = int(max(place.done, round(said.epoch * place.total / epochs)))
            place = place._replace(
                aside=said.epoch,
                is_sure=place.total > 0,
                is_of_parts=is_part,
                step=step,
                unit="step" if place.total and place.done else "epoch",
            )
        elif epoch is not None:
            is_over = has_metrics or (said and said.is_over)
            if place.per_epoch:
                at_step = (epoch - place.first + (1 if is_over else 0)) * place.per_epoch
                place = place._replace(is_over=bool(is_over) and epoch != place.epoch)
            elif place.has_steps and is_over:
                at_step = place.before + place.done
            else:
                at_step = epoch
                place = place._replace(unit="epoch")
            place = place._replace(step=int(at_step), has_steps=False)
        if epoch is not None:
            tells_steps = bool((said and said.total) or at or numbered)
            is_new = (place.is_new_epoch or epoch != place.epoch) and not tells_steps
            place = place._replace(epoch=epoch, is_new_epoch=is_new)
        elif at:
            place = place._replace(is_new_epoch=False)
        self.place = place
        return place.step


def _with_steps(place: Place, said: Position, epoch: float | None, has_metrics: bool) -> Place:
    """Returns where a line stands that counts steps up to a total."""
    of = place.epoch if epoch is None else epoch
    if epoch is None and of is not None and place.is_over:
        of += 1
    goes_on = place.goes_on
    if of is None or said.is_aside:
        begun = place.before
        if place.per_epoch == said.total and said.done < place.done / 2:
            begun += place.done  # a bar that begins again is of the next epoch
        step = begun + said.done
        per_epoch = said.total if has_metrics else place.per_epoch
        place = place._replace(before=begun)
    else:
        if epoch is not None:
            goes_on = False
        elif place.is_new_epoch and place.total == said.total:
            goes_on = 0 < place.done < said.done  # a bar of the whole
        step = said.done if goes_on else (of - place.first) * said.total + said.done
        per_epoch = said.total if has_metrics and not goes_on else place.per_epoch
    return place._replace(
        done=said.done,
        total=said.total,
        step=int(step),
        unit=said.unit,
        per_epoch=per_epoch,
        goes_on=goes_on,
        is_new_epoch=False,
        is_sure=place.is_sure or has_metrics,
    )


def position(line: str) -> Position | None:
    """Returns what a line says of how far the program is; ``None`` for nothing."""
    text = _last_state(line)
    if not _TELLS.search(text):
        return None
    text = plain(text)
    epoch = _EPOCH.search(text)
    rest = text
    if epoch:
        rest = f"{text[: epoch.start()]}{' ' * len(epoch[0])}{text[epoch.end() :]}"
    bar = _TQDM.search(rest)
    if bar and _BYTES.search(bar[3]):
        return None
    steps = bar or _RICH.search(rest) or _KERAS.search(rest) or _IN_EPOCH.search(text)
    steps = steps or _STEPS.search(rest) or _BRACKETS.search(rest) or _COUNTED.search(rest)
    before = text[: steps.start() if steps else epoch.start() if epoch else 0][-60:]
    is_training = bool(_TRAINS.search(before)) or bool(epoch and not _is_aside(text, epoch))
    if _OTHER.search(before) and not _TRAINS.search(before):
        return None
    said = Position(is_training=is_training and bool(steps))
    if steps:
        total = _value(steps[2])
        if not total or _value(steps[1]) > total:
            return None
        unit = "sample" if steps.re is _BRACKETS and steps[3] else "step"
        said = said._replace(done=_value(steps[1]), total=total, unit=unit)
        if bar and re.fullmatch(r"\W*epochs?\W*", text[: bar.start()], re.IGNORECASE):
            # A bar of epochs around that of each epoch.
            if said.done >= total:
                return said._replace(total=0.0, epoch=total, epochs=int(total), is_over=True)
            return said._replace(total=0.0, epoch=said.done + 1, epochs=int(total))
    if epoch:
        number, epochs = float(epoch[1] or epoch[3]), int(epoch[2] or 0)
        is_aside = _is_aside(text, epoch) and not epochs
        is_first = not text[: epoch.start()].strip(" [(#*-=>|")
        if (epochs and number <= epochs) or (not epochs and (steps or is_first or is_aside)):
            has_figures = bool(re.search(r"\d", text[epoch.end() :]))
            said = said._replace(
                epoch=number,
                epochs=epochs,
                is_over=not steps and has_figures,
                is_aside=is_aside,
            )
    return said if said.total or said.epoch is not None else None


def telling(line: str) -> bool:
    """Tells at little cost whether a line may tell a position; most do not."""
    return bool(_TELLS.search(line, max(0, len(line) - 4 * WIDTH)))


def _last_state(line: str) -> str:
    """Returns what a person sees of a line that was rewritten, as bars are."""
    return line[-4 * WIDTH :].rstrip("\r\n\b ").rpartition("\r")[2].rpartition("\b")[2][:WIDTH]


def _body(line: str) -> str:
    """Returns a line without what a logger puts before it; empty for a warning."""
    text = _WIDE.sub(_GAP, plain(_last_state(line)))
    while found := _BEFORE.match(text):
        if (found["level"] or found["short"]) in _FAULTS:
            return ""
        if not found.end():
            break
        text = text[found.end() :]
    return text


def _metrics(text: str, said: Position | None, known: Collection[str]) -> dict[str, float]:
    """Returns the metrics of a line that is no row of a table."""
    has_position = bool(said or _STEP.search(text) or _BOOSTED.match(text) or _NUMBERED.match(text))
    parts = _parts(text)
    found: dict[str, float] = {}
    if of := _OF.search(text):
        end = len(text[: of.start()].rstrip())
        name = _whole_name(of["name"], text[:end], _part_at(parts, of.start()))
        found[name] = _percent_of(of["value"], of["percent"])
        text = f"{text[: of.start()]}{' ' * len(of[0])}{text[of.end() :]}"
    end = 0
    for pair in _PAIR.finditer(text):
        between, end = text[end : pair.start()], pair.end()
        name = _whole_name(pair["name"], between, _part_at(parts, pair.start()))
        if name in known or _is_metric(name, pair, between, has_position):
            value = _percent_of(pair["value"], pair["percent"])
            if pair["of"]:
                if not float(pair["of"]):
                    continue
                value /= float(pair["of"])
            elif pair[7]:
                value = _percent_of(pair[7], pair["percent"])
            found[name] = value
    return found


def _percent_of(value: str, percent: str | None) -> float:
    return float(value) / 100 if percent else float(value)


def _is_metric(name: str, pair: re.Match[str], between: str, has_position: bool) -> bool:
    if name == RATE:
        return has_position
    if _is_other(name):
        return False
    words = _words(name)
    is_fraction = bool(pair["percent"] or pair["of"] or not pair["value"].lstrip("+-").isdigit())
    is_told = not pair["by"].isspace()  # by a sign
    known = [word for word in words if _is_known(word)]
    if known and not _PARAMETERS.intersection(words) and not (pair["of"] and not _is_share(known)):
        if has_position:
            return is_told or is_fraction or not _AMBIGUOUS.issuperset(known)
        if _AMBIGUOUS.issuperset(known):
            return is_told and is_fraction
        return is_fraction or any(word.endswith(_ANY_SIZE) for word in known)
    if not (has_position and is_told) or pair["of"] or _PARAMETERS.intersection(words):
        return False
    word_before = re.search(r"([A-Za-z]{2,})\s+$", between)
    if word_before and word_before[1].lower() not in _QUALIFIERS:
        return False  # a sentence
    return len(name) > 1 and (is_fraction or "=" in pair["by"] or bool(pair["quote"]))


def _is_share(known: list[str]) -> bool:
    return any(word.startswith(("acc", "top", "precision", "recall", "error")) for word in known)


def _is_known(word: str) -> bool:
    return word in _KNOWN or word.rstrip("0123456789") in _KNOWN or word.endswith(_ENDINGS)


def _is_other(name: str) -> bool:
    words = _words(name)
    return not words or words[-1] in _OTHERS or words[0] == "time" or "per" in words


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+\d*|\d+", name)


def _whole_name(name: str, before: str, part: str) -> str:
    """Returns the name of a metric, with what stands before it."""
    if name.lower() == "samples/s":
        return RATE
    words = [name]
    for word in reversed(before[-LONG:].split() if before[-1:].isspace() else []):
        plain_word = word.lstrip("'\"([|").rstrip(".")
        if plain_word.lower() not in _QUALIFIERS:
            break
        words.insert(0, plain_word)
        if not word.startswith(plain_word):
            break
    whole = name_of(" ".join(words))
    return whole if _has_part(whole) else f"{part}{whole}"


def _has_part(name: str) -> bool:
    return not _PARTS.keys().isdisjoint(_words(name))


def name_of(words: str) -> str:
    """Returns the name of a metric that is called so where it is printed."""
    return re.sub(r"\s+", "_", words.replace("'s ", " ").strip().lower())[:LONG].strip("._-/:")


def _parts(text: str) -> list[tuple[int, str]]:
    """Returns from where on a line is about which data, and what that puts before names."""
    first = _FIRST.match(text)
    part = _PARTS[first["first"].lower()] if first else ""
    if first and not part and (pair := _PAIR.match(text, first.end() + 1)):
        # As the first name of the line says.
        part = "train_" if any(map(_is_known, _words(pair["name"].lower()))) else ""
    found = [(0, part)]
    return found + [(each.start(), _PARTS[each["first"].lower()]) for each in _PART.finditer(text)]


def _part_at(parts: list[tuple[int, str]], at: int) -> str:
    for (_, part), (following, _) in pairwise([*parts, (len(parts) + 10**9, "")]):
        if at < following:
            return part
    return ""


def _table(text: str) -> _Table | None:
    """Returns the table that a line begins, if it is the head of one."""
    if _OF_LIGHTNING.match(text):
        return _Table()
    if section := _SECTION.match(text):
        return _Table(section=section[1])
    if not _HEADER.match(text) or "=" in text:
        return None
    text = _BAR_AFTER.sub("", text.strip())
    cells = _split(text)
    if len(cells) < 3:
        cells = text.split()
        words = [cell for cell in cells if any(map(_is_known, _words(cell.lower())))]
        if len(cells) < 3 or not (len(words) > 1 or any("_" in word for word in words)):
            return None
    if any(_NO_COLUMN.search(cell) for cell in cells):
        return None
    columns: list[str] = []
    group = ""
    for cell in cells:
        outer, bracket, inner = cell.rpartition("(")
        if bracket and not cell.endswith(")"):  # Box(P R mAP50 mAP50-95), and perhaps Mask(P ...
            group, cell = ("" if not group else f"{outer.strip()}_"), inner
            group = group or "\0"
        name = name_of(cell.rstrip(")"))
        name = {"p": "precision", "r": "recall"}.get(name, name) if group else name
        columns.append(_POSITIONS.get(cell.lower(), f"{group.strip(chr(0))}{name}"))
    is_one = any(map(_is_known, (word for name in columns for word in _words(name))))
    return _Table(tuple(columns)) if is_one else None


def _split(text: str) -> list[str]:
    if _BARS.search(text):
        return [cell.strip() for cell in _BARS.split(text.strip(" |│┃"))]
    return re.split(r"\s{2,}|\t", text.strip())


def _cells(text: str, table: _Table) -> list[str]:
    """Returns the cells of a row of a table; none where a line is no row."""
    text = _BAR_AFTER.sub("", text.strip())
    cells = _split(text)
    if not table.columns:
        cells = [cell for cell in cells if cell]
        values = cells[1:]
        is_row = values and re.fullmatch(r"[A-Za-z_][^=:]{0,60}", cells[0])
        return cells if is_row and all(re.fullmatch(_VALUE, value) for value in values) else []
    if len(cells) != len(table.columns):
        cells = text.split()
    if len(cells) != len(table.columns) or not all(map(_CELL.fullmatch, cells)):
        return []
    return cells


def _is_aside(text: str, epoch: re.Match[str]) -> bool:
    return text[: epoch.start()].endswith(("'", '"'))


def _value(text: str) -> float:
    return float(text.rstrip("kMGTP")) * _POWERS.get(text[-1], 1.0)
