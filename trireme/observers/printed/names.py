"""Names of metrics: the words that they are made of, and those that other figures have."""

import re

LONG = 60  # characters of a metric's name

RATE = "samples_per_second"
"""The one speed that is read, as ``samples/s 12``, which the trainers print."""

PARTS = {
    **dict.fromkeys(("train", "training"), ""),
    **dict.fromkeys(("val", "valid", "validation", "validate", "validating"), "val_"),
    **dict.fromkeys(("test", "testing"), "test_"),
    **dict.fromkeys(("eval", "evaluation", "evaluate", "evaluating"), "eval_"),
    "dev": "dev_",
}
"""What words say which data a line, or a part of it, is about; and what that gives a name."""


def _each(words: str) -> list[str]:
    return words.split()


QUALIFIERS = {
    *PARTS,
    *_each(
        "average avg mean running total batch smoothed best final overall macro micro "
        "weighted last balanced box cls obj g d generator discriminator policy value critic "
        "actor lm mlm kl ctc attention teacher student reconstruction word token pixel class "
        "learning grad gradient absolute squared root relative percentage f1 roc pr top-1 "
        "top-5 top1 top5 dice"
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

ANY_SIZE = ("loss", "reward", "rew", "return", "perplexity", "ppl", "nll", "elbo")
"""Of these a whole number may be a value that stands alone."""

AMBIGUOUS = {*_each("map error err score return ap em precision recall r2 top1 top5 fitness")}
"""Those that are other words, too."""

PARAMETERS = frozenset(
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


def name_of(words: str) -> str:
    """Returns the name of a metric that is called so where it is printed."""
    return re.sub(r"\s+", "_", words.replace("'s ", " ").strip().lower())[:LONG].strip("._-/:")


def whole_name(name: str, before: str, part: str) -> str:
    """Returns the name of a metric, with what stands before it.

    Args:
        part: What the part of the line gives a name, as ``PARTS`` says.
    """
    if name.lower() == "samples/s":
        return RATE
    words = [name]
    for word in reversed(before[-LONG:].split() if before[-1:].isspace() else []):
        plain_word = word.lstrip("'\"([|").rstrip(".")
        if plain_word.lower() not in QUALIFIERS:
            break
        words.insert(0, plain_word)
        if not word.startswith(plain_word):
            break
    return with_part(part, name_of(" ".join(words)))


def with_part(part: str, name: str) -> str:
    """Returns a name that says which data it is about, also where it did not."""
    return f"{part}{name}" if PARTS.keys().isdisjoint(words_of(name)) else name


def words_of(name: str) -> list[str]:
    """Returns the words of a name in small letters."""
    return re.findall(r"[a-z]+\d*|\d+", name)


def is_known(word: str) -> bool:
    """Tells whether a word makes a name that of a metric."""
    return word in _KNOWN or word.rstrip("0123456789") in _KNOWN or word.endswith(_ENDINGS)


def has_known(name: str) -> bool:
    """Tells whether a name has such a word."""
    return any(map(is_known, words_of(name)))


def is_other(name: str) -> bool:
    """Tells whether a name is that of no metric, such as a time."""
    words = words_of(name)
    return not words or words[-1] in _OTHERS or words[0] == "time" or "per" in words
