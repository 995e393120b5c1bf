"""Measure a language model of transformers on held-out texts, beside the model it was made from.

An evaluation program, which needs trl and peft, and reads

    MODEL_DIR       the model and its tokenizer, as ``save_pretrained`` leaves them, or an adapter
    BASE_MODEL_DIR  the model that it was made from, if there is one
    DATA_DIR        texts, see texts.py
    EVALUATION_DIR  what it leaves: metrics.json; scores.npy, by which models are compared: the mean
                    log-likelihood of a token in each text, or its answer's --reward; samples.json,
                    answers of both models; inputs.json, what they were asked

Copy along: {rewards,texts}.py
"""

import argparse
import json
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rewards
import texts
import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

Reward = Callable[..., list[float]]

IGNORED = -100  # in place of a word that is not to be foretold


def load(folder: Path, adapter: Path | None = None) -> Any:
    """Returns the model in a folder, with an adapter on it, in evaluation mode."""
    on_gpu = torch.cuda.is_available()
    dtype = "auto" if on_gpu else "float32"
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    if adapter:
        try:
            model = PeftModel.from_pretrained(model, str(adapter))
        except (RuntimeError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())[: rewards.WHY]
            raise texts.Unusable(f"{adapter} is not an adapter of {folder}: {why}") from None
    return (model.cuda() if on_gpu else model).eval()


def context_of(model: Any) -> int | None:
    """Returns how many tokens a model takes; None where that is not known."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def scores(model: Any, tokenizer: Any, rows: list[dict[str, Any]], left: Path) -> np.ndarray:
    """Returns the mean log-likelihood of a token in each text; NaN where there is none."""
    dataset = Dataset.from_list(rows)
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(left),
            per_device_eval_batch_size=1,
            max_length=context_of(model),
            bf16=False,
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
        ),
        # The trainer wants something to train on; it only prepares the texts here.
        train_dataset=dataset,
        eval_dataset=dataset,
        processing_class=tokenizer,
    )
    measured = []
    with torch.no_grad():
        for batch in trainer.get_eval_dataloader():
            if (batch["labels"][:, 1:] == IGNORED).all():
                measured.append(math.nan)  # the first word is given, and it has no other
                continue
            inputs = {name: value.to(model.device) for name, value in batch.items()}
            measured.append(-float(model(**inputs).loss))
    return np.array(measured)


def answers(model: Any, tokenizer: Any, questions: list[Any], tokens: int) -> list[str]:
    """Returns what a model answers, always with the likeliest token.

    Of a question that leaves no room for it in the context the beginning is left out.
    """
    answered = []
    longest = (context_of(model) or math.inf) - tokens
    if longest < 1:
        raise texts.Unusable(
            f"--tokens {tokens}: the model takes {context_of(model)} tokens, question and answer"
        )
    for question in questions:
        if isinstance(question, str):
            inputs = tokenizer(question, return_tensors="pt")
        else:
            inputs = tokenizer.apply_chat_template(
                question, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        start = max(0, inputs["input_ids"].shape[1] - longest)
        names = ("input_ids", "attention_mask")
        inputs = {name: inputs[name][:, start:].to(model.device) for name in names}
        length = inputs["input_ids"].shape[1]
        with torch.no_grad():
            output = model.generate(
                **inputs,
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )
        answered.append(tokenizer.decode(output[0, length:], skip_special_tokens=True).strip())
    return answered


def in_words(question: Any) -> str:
    """Returns a question as a person reads it: of a conversation what was said last."""
    return question if isinstance(question, str) else str(question[-1]["content"])


class Measured(NamedTuple):
    """A model as it was measured.

    Attributes:
        scores: Of each held-out text, the greater the better; NaN where there is none.
        answers: To the questions.
    """

    scores: np.ndarray
    figures: dict[str, float]
    answers: list[str]


class Questions(NamedTuple):
    """What models are measured by, and asked."""

    rows: list[dict[str, Any]]
    asked: list[Any]
    answers: list[str]
    reward: Reward | None


def questions_of(arguments: argparse.Namespace) -> Questions:
    """Returns what models are measured by: with a reward by their answers to all prompts."""
    reward = rewards.load(arguments.reward) if arguments.reward else None
    rows = list(texts.in_form(texts.load("test"), (texts.ASKED,) if reward else texts.FORMS))
    if reward:
        rows = [row for row in rows if row["prompt"]]
    pairs = [pair for pair in map(texts.question, rows) if pair[0]]
    shown = pairs if reward else pairs[: arguments.samples]
    return Questions(rows, [asked for asked, _ in shown], [answer for _, answer in shown], reward)


def by_reward(model: Any, tokenizer: Any, given: Questions, tokens: int) -> Measured:
    """Measures a model by the rewards of its answers."""
    answered = answers(model, tokenizer, given.asked, tokens)
    are_conversations = texts.are_messages(given.asked[0])
    completions: list[Any] = answered
    if are_conversations:
        completions = [[{"role": "assistant", "content": answer}] for answer in answered]
    columns = {name: [row[name] for row in given.rows] for name in given.rows[0]}
    assert given.reward
    scored = np.array(
        given.reward(prompts=columns.pop("prompt"), completions=completions, **columns)
    )
    if not np.isfinite(scored).all():
        raise texts.Unusable("--reward: gives numbers that are not finite")
    return Measured(scored, {"reward": float(scored.mean())}, answered)


def by_likelihood(
    model: Any, tokenizer: Any, given: Questions, tokens: int, left: Path
) -> Measured:
    """Measures a model by how well it foretells the texts."""
    scored = scores(model, tokenizer, [texts.learnt(row) for row in given.rows], left)
    are_told = ~np.isnan(scored)
    if not are_told.any():
        raise texts.Unusable("the texts to measure by have no word that could be foretold")
    loss = -float(np.mean(scored[are_told]))
    figures = {"log_likelihood": -loss, "perplexity": math.exp(loss), "loss": loss}
    if "rejected" in given.rows[0]:
        others = [texts.learnt(row, "rejected") for row in given.rows]
        is_preferred = (scored > scores(model, tokenizer, others, left))[are_told]
        figures["preferred_accuracy"] = float(np.mean(is_preferred))
    answered = answers(model, tokenizer, given.asked, tokens)
    return Measured(scored[are_told], figures, answered)


def tasks_of(arguments: argparse.Namespace) -> Any:
    """Returns lm-eval's list of tasks, which has those that are asked for; None without any."""
    if not arguments.tasks:
        return None
    try:
        from lm_eval.tasks import TaskManager
    except ModuleNotFoundError:
        raise texts.Unusable("--tasks needs the package lm-eval, as a requirement") from None
    known = TaskManager(include_path=arguments.task_folder or None)
    if unknown := [name for name in arguments.tasks if not known.match_tasks([name])]:
        raise texts.Unusable(
            f"--tasks: lm-eval has no {', '.join(unknown)}; --task-folder names a folder with "
            "YAML files of tasks of one's own"
        )
    return known


def by_tasks(
    model: Any, tokenizer: Any, known: Any, arguments: argparse.Namespace
) -> dict[str, float]:
    """Returns what lm-eval measures of a model, as TASK_METRIC, or TASK_METRIC_FILTER."""
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM

    found = simple_evaluate(
        model=HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1),
        tasks=arguments.tasks,
        task_manager=known,
        limit=arguments.task_limit,
        bootstrap_iters=0,
    )
    figures = {}
    for task, measured in found["results"].items():
        for name, value in measured.items():
            # As in acc,none, or exact_match,strict-match of what is cut out of answers.
            metric, comma, cut = name.partition(",")
            if comma and isinstance(value, int | float) and "stderr" not in metric:
                figures[f"{task}_{metric}" + (f"_{cut}" if cut != "none" else "")] = float(value)
    return figures


def measure(arguments: argparse.Namespace) -> None:
    """Measures the model, text by text, and its base model."""
    texts.quiet()
    folder, left = texts.directory("MODEL_DIR"), texts.directory("EVALUATION_DIR")
    given, tasks = questions_of(arguments), tasks_of(arguments)
    is_adapter = not (folder / "config.json").is_file()
    base = texts.directory("BASE_MODEL_DIR") if os.environ.get("BASE_MODEL_DIR") else None
    if is_adapter and not base:
        raise texts.Unusable(f"{folder} has no config.json, and an adapter needs BASE_MODEL_DIR")
    has_tokenizer = (folder / "tokenizer_config.json").is_file()
    tokenizer = AutoTokenizer.from_pretrained(folder if has_tokenizer else base)
    if texts.need_template(given.rows) and not tokenizer.chat_template:
        raise texts.Unusable("the texts are messages, and the model has no chat template for them")
    how = by_reward if given.reward else partial(by_likelihood, left=left)

    def measured(loaded: Any) -> Measured:
        found = how(loaded, tokenizer, given, arguments.tokens)
        if tasks:
            found.figures.update(by_tasks(loaded, tokenizer, tasks, arguments))
        return found

    model = measured(load(base, folder) if is_adapter and base else load(folder))
    figures, answered = dict(model.figures), {"model": model.answers}
    if base:
        of_base = measured(load(base))
        told = [name for name in of_base.figures if name != "log_likelihood"]
        figures |= {f"base_{name}": of_base.figures[name] for name in told}
        if given.reward:
            figures["reward_above_base"] = figures["reward"] - figures["base_reward"]
        else:
            figures["loss_below_base"] = figures["base_loss"] - figures["loss"]
        answered["base model"] = of_base.answers

    (left / "metrics.json").write_text(json.dumps(figures))
    np.save(left / "scores.npy", model.scores)
    columns = {"asked": [in_words(asked) for asked in given.asked]} | answered
    if any(given.answers):
        columns["held-out text"] = given.answers
    rows = list(zip(*columns.values(), strict=True))[: arguments.samples]
    samples = [dict(zip(columns, row, strict=True)) for row in rows]
    (left / "samples.json").write_text(json.dumps(samples))
    if rows:
        (left / "inputs.json").write_text(json.dumps([row[0] for row in rows]))
    print(" ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def main() -> None:
    """Measures the model; what cannot be used is one sentence and exit status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=8, help="questions whose answers are shown")
    parser.add_argument(
        "--reward",
        metavar="FILE.py:FUNCTION",
        default="",
        help="measure by it, as training with --method grpo does",
    )
    parser.add_argument(
        "--tasks",
        type=lambda text: text.split(","),
        default=[],
        help="of lm-eval, where that is installed: names, separated by commas",
    )
    parser.add_argument("--task-folder", default="", help="with YAML files of one's own tasks")
    parser.add_argument("--task-limit", type=int, help="questions of a task, at most")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer, at most")
    try:
        measure(parser.parse_args())
    except texts.Unusable as error:
        print(error, flush=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
