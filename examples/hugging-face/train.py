"""Trains a small BERT on data/train.jsonl with the Trainer of transformers, from nothing."""

import argparse
import json
import os
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
args = parser.parse_args()

set_seed(0)
reviews = [json.loads(line) for line in Path("data/train.jsonl").read_text().splitlines()]
texts = [review["text"] for review in reviews]

words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
words.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words,
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    model_max_length=32,
)


class Reviews(torch.utils.data.Dataset):
    def __len__(self):
        return len(reviews)

    def __getitem__(self, index):
        return {**tokenizer(reviews[index]["text"]), "labels": reviews[index]["label"]}


config = BertConfig(
    vocab_size=len(tokenizer),
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=32,
    id2label={0: "bad", 1: "good"},
    label2id={"bad": 0, "good": 1},
)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=TrainingArguments(
        output_dir=os.environ.get("CHECKPOINT_DIR", "checkpoints"),
        num_train_epochs=args.epochs,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=Reviews(),
    data_collator=DataCollatorWithPadding(tokenizer),
)
trainer.train()
folder = os.environ.get("MODEL_DIR", "model")
trainer.save_model(folder)
tokenizer.save_pretrained(folder)
