"""trireme/explaining/bundle.py: what a bundle holds, and what it does not."""

import json
import zipfile

import pytest
import yaml

from trireme.answers.answer import moment
from trireme.answers.explanations import Explanation
from trireme.errors import InputError, TriremeError
from trireme.explaining import bundle

TOLD = Explanation(
    of="job",
    name="one",
    where="local",
    state="failed",
    has_ended=True,
    created=moment(0),
    seconds=1.0,
    summary="it failed",
    progress=None,
    waits=[],
    cause=None,
    evidence=[],
    last_lines=["connecting with hunter-22", 'password="correct horse" lr 0.125'],
    tried=[],
    advice=[],
    next=[],
    notes=[],
)
SPELLED = 'it\'s a "long" \\ phrase ' + "of many words " * 10
JOB = {
    "containers": [
        {
            "env": [
                {"name": "DB_PASSWORD", "value": "hunter-22"},
                {"name": "SITE_SECRET", "value": SPELLED},
                {"name": "LR", "value": "0.125"},
                {"name": "MLFLOW_EXPERIMENT_NAME", "value": "connecting"},
            ],
            "args": ["--api-key", "swordfish", "--max-tokens", "4096"],
        }
    ]
}
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\n-----END RSA PRIVATE KEY-----"


def logs(on_line):
    on_line("master-0", "hunter-22 swordfish lr 0.125 max-tokens 4096")
    on_line("master-0", "API_TOKEN of a run on a cluster")
    on_line("master-0", f"{KEY}\nhf_{'a' * 30}\npostgresql://u:pw@host/db")
    on_line("master-0", f"{SPELLED}\n{SPELLED!r}\n{json.dumps(SPELLED)}")


def test_no_secret_is_in_a_bundle_whose_other_words_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "out-of-the-environment")
    notes = tmp_path / "notes.json"
    notes.write_text('{"note": "out-of-the-environment"}')
    file = tmp_path / "one.zip"
    parameters = {"env": json.dumps({"API_TOKEN": "of a run on a cluster"}), "workers": "2"}
    bundle.write(TOLD, file, logs, {"notes.json": notes}, {"job.yaml": JOB}, parameters)
    with zipfile.ZipFile(file) as opened:
        texts = {name: opened.read(name).decode() for name in opened.namelist()}
    names = {"explanation.txt", "explanation.json", "versions.txt", "job.yaml", "notes.json"}
    assert texts.keys() == names | {"logs/master-0.log"}
    whole = "\n".join(texts.values())
    for secret in ("hunter-22", "swordfish", "MIIEpAIB", "hf_aaa", "u:pw", "out-of-the-env"):
        assert secret not in whole
    for words in ("long", "many words", "correct horse", "of a run on a cluster"):
        assert words not in whole
    assert json.loads(texts["explanation.json"])["last_lines"][1] == 'password="***" lr 0.125'
    assert yaml.safe_load(texts["job.yaml"])["containers"][0]["env"][2]["value"] == "0.125"
    assert "lr 0.125 max-tokens 4096" in texts["logs/master-0.log"]
    assert "connecting with ***" in texts["explanation.txt"]
    assert [*tmp_path.glob(".*")] == []


@pytest.mark.parametrize(
    "text, kept",
    [
        ('{"api_key": "abcdef", "lr": 1}', '{"api_key": "***", "lr": 1}'),
        ("password=12345 next", "password=*** next"),
        ("tokens: 512, token_rate=3.5", "tokens: 512, token_rate=3.5"),
        ("auth_token=abc", "auth_token=***"),
        ("password='a b' c", "password='***' c"),
        (r"{\"password\": \"a b\", \"lr\": 1}", r"{\"password\": \"***\", \"lr\": 1}"),
        ('password="cut off', 'password="*** off'),
        ('"password": "", "lr": "x"', '"password": "", "lr": "x"'),
        ("the secret of success", "the secret of success"),
    ],
)
def test_what_is_called_secret_is_taken_out_of_lines(text, kept):
    assert bundle.without_secrets(text) == kept


def test_logs_that_cannot_be_had_are_told(tmp_path):
    def gone(on_line):
        raise TriremeError("the cluster does not answer")

    bundle.write(TOLD, tmp_path / "one.zip", gone, {}, {}, {})
    with zipfile.ZipFile(tmp_path / "one.zip") as opened:
        assert opened.read("logs/unknown.log") == b"the cluster does not answer"


def test_a_name_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"--bundle 'x.tar': must be the name of a .zip file"):
        bundle.check(tmp_path.__class__("x.tar"))
    with pytest.raises(InputError, match="is not there"):
        bundle.check(tmp_path / "nowhere" / "x.zip")
