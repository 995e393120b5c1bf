"""A small language model and texts, made on the spot."""

import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

SOUNDS = {"cat": "meows", "dog": "barks", "owl": "hoots", "fox": "yelps", "hen": "clucks"}
CHAT = (
    "{% for each in messages %}<{{ each['role'] }}>{{ each['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
CARD = "---\nlicense: apache-2.0\n---\n# A model\n"


def question(animal, hour):
    return f"What does the {animal} do at {hour}?"


def texts(form, hours=20):
    """Returns rows of a form: prompt, messages or chosen."""
    for hour in range(hours):
        for animal, sound in SOUNDS.items():
            asked, answer = question(animal, hour), f"The {animal} {sound}."
            messages = [{"role": "user", "content": asked}]
            said = [{"role": "assistant", "content": answer}]
            if form == "prompt":
                yield {"prompt": asked, "completion": f" {answer}"}
            elif form == "messages":
                yield {"messages": messages + said}
            else:
                silent = [{"role": "assistant", "content": "It sleeps."}]
                yield {"prompt": messages, "chosen": said, "rejected": silent}


def write_texts(folder, form, hours=20):
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in texts(form, hours))
    (folder / "animals.jsonl").write_text(lines)
    return folder


def write_model(folder: Path, width=32, seed=0, chat=True, layers=2):
    """Leaves a model with its tokenizer, as ``save_pretrained`` does."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=["<end>", "<pad>", "<user>", "<assistant>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator([json.dumps(row) for row in texts("prompt")], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<end>", pad_token="<pad>"
    )
    if chat:
        tokenizer.chat_template = CHAT
    torch.manual_seed(seed)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=2,
            max_position_embeddings=128,
            bos_token_id=None,
            eos_token_id=0,
            pad_token_id=1,
            tie_word_embeddings=False,
        )
    )
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(CARD)
    return folder


COMMIT = "3b33bfb9fec8730f7debb90bf0326922c592af2e"


@contextmanager
def hub_of(folder, name, token):
    """Serves a folder as a gated repository of a Hub of one's own; yields its URL."""
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            if self.headers["Authorization"] != f"Bearer {token}":
                self.answer(403, b"", "GatedRepo")
            elif path == f"/api/models/{name}/revision/v1":
                self.answer(200, json.dumps({"sha": COMMIT}).encode())
            elif path == f"/api/models/{name}/tree/{COMMIT}":
                self.answer(200, json.dumps([described(*each) for each in files.items()]).encode())
            elif path.startswith(f"/{name}/resolve/{COMMIT}/"):
                self.answer(200, files[path.rpartition("/")[2]])
            else:
                self.answer(401, b"", "RepoNotFound")

        def answer(self, status, content, error=""):
            self.send_response(status)
            if error:
                self.send_header("X-Error-Code", error)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    def described(path, content):
        git = hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()
        return {"type": "file", "path": path, "size": len(content), "oid": git}

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
