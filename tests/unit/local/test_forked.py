"""trireme/runner/local/forked.py: a trainer that is forked is as one that is started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trireme.code import builtin
from trireme.frameworks.base import WAITING
from trireme.job.job import TrainingJob
from trireme.manifests import render

# In a process with one thread, as a step's: that of the tests has more.
START = """
import json, os, sys
from trireme.process.processes import reap
from trireme.frameworks import FRAMEWORKS
from trireme.runner.local import forked
from trireme.runner.local.supervised import supervised

def start(is_forked, folder, *arguments):
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": folder, "OMP_NUM_THREADS": "1"}
    command = ["python3", "programs/own.py", *arguments]
    if is_forked:
        return forked.start(FRAMEWORKS["xgboost"], command, variables, folder, 0.5)
    return supervised([sys.executable, *command[1:]], 0.5, variables, folder)
"""

BOTH = """
import atexit, logging
logging.basicConfig(level="INFO")
kept = open(sys.argv[1] + "/programs/own.py")
atexit.register(print, "of another process")
for is_forked in (False, True):
    process = start(is_forked, *sys.argv[1:])
    said = process.stdout.read().decode()
    print(json.dumps([said, reap(process).status]))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "programs").mkdir()
    return tmp_path


@pytest.fixture
def ask(folder):
    """Runs lines of Python that start a program, and returns what they print."""

    def run(program, lines, *arguments):
        (folder / "programs" / "own.py").write_text(program)

        words = [sys.executable, "-c", START + lines, str(folder), *arguments]
        return subprocess.check_output(words, text=True, timeout=60).splitlines()

    return run


SEEN = """
import json, logging, os, signal, sys, tempfile
places = [os.readlink(f"/proc/self/fd/{one}") for one in range(64)
          if os.path.lexists(f"/proc/self/fd/{one}")]
print(json.dumps({
    "words": sys.argv,
    "name": __name__,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "file": __file__,
    "path": sys.path,
    "folder": os.getcwd(),
    "environment": sorted(os.environ.keys() - {"LC_CTYPE"}),
    "child": os.popen("echo $OMP_NUM_THREADS").read(),
    "temporary": tempfile.gettempdir(),
    "input": sys.stdin.read(),
    "threads": len(os.listdir("/proc/self/task")),
    "files": sorted({place.partition(":")[0] for place in places}),
    "signals": [str(signal.getsignal(one)) for one in (2, 1, 15, 17, 13)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "logging": [logging.root.level, len(logging.root.handlers)],
    "leads": os.getpgrp() == os.getpid(),
    "apart": os.getsid(0) == os.getppid(),
    "started under": os.environ["TRIREME_SUPERVISOR"] == str(os.getppid()),
}))
"""


def test_it_sees_what_a_new_interpreter_shows(ask, folder):
    own, fork = map(json.loads, ask(SEEN, BOTH, "--a", "b")[:2])
    assert [own[1], fork[1]] == [0, 0], fork[0]
    own, fork = json.loads(own[0]), json.loads(fork[0])
    assert own["words"] == ["programs/own.py", "--a", "b"]
    assert own["path"][:2] == [str(folder / "programs"), str(folder)]
    assert own["files"] == ["/dev/null", "pipe"]
    assert fork == own


@pytest.mark.parametrize(
    ("program", "status", "says"),
    [
        ("raise ValueError('odd')", 1, "ValueError: odd"),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('a reason')", 1, "a reason"),
        ("raise SystemExit(3.5)", 1, "3.5"),
        ("raise SystemExit", 0, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 128 + signal.SIGINT, ""),
        ("import os; os.abort()", 128 + signal.SIGABRT, ""),
        ("print('kept', end='')", 0, "kept"),
        ("import atexit; atexit.register(print, 'at the end')", 0, "at the end"),
        (
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(0.1), print('waited for'))).start()",
            0,
            "waited for",
        ),
    ],
)
def test_it_ends_as_it_would_alone(ask, program, status, says):
    *both, last = ask(program, BOTH)
    for said, ended in map(json.loads, both):
        assert ended == status
        assert says in said
        assert "another" not in said
    assert last == "of another process"


IGNORES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
os.write(1, f"{os.getpid()}\\n".encode())
time.sleep(600)
"""
ENDED = """
process = start(True, sys.argv[1])
print(process.stdout.readline().decode(), process.stdout.readline().decode(), flush=True)
if sys.argv[2] == "nothing":
    os._exit(0)
process.terminate() if sys.argv[2] == "terminate" else process.send_signal(int(sys.argv[2]))
print(reap(process).status)
process.terminate()
"""


@pytest.mark.parametrize(
    ("how", "said"), [("terminate", ["137"]), (str(int(signal.SIGQUIT)), ["137"]), ("nothing", [])]
)
def test_nothing_of_it_is_left(ask, how, said, eventually):
    first, second, *rest = " ".join(ask(IGNORES, ENDED, how)).split()
    assert rest == said
    assert eventually(lambda: not (is_alive(first) or is_alive(second)))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


ASKED = """
import threading, time
program, variables, more = json.loads(sys.argv[2])
os.environ.pop("PYTHONPATH", None)
forked.usage.has_gpu = lambda: more == "GPU"
sys.modules["torch"] = forked
sys.modules |= {"helpers": forked} if more == "helpers" else {}
if more == "no library":
    sys.path[:] = [place for place in sys.path if not place.endswith(".zip")]
if more == "thread":
    threading.Thread(target=time.sleep, args=(1,)).start()
path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
usual = {"PYTHONPATH": sys.argv[1], "OMP_NUM_THREADS": "2", "PATH": path}
variables = os.environ | usual | variables
framework = FRAMEWORKS["tensorflow" if more == "tensorflow" else "pytorch"]
print(forked.is_for(framework, program, variables, sys.argv[1]))
"""
OURS = ["python3", f"{builtin.PLACE}/pytorch_classifier.py", "--epochs", "1"]
USUAL = {"RANK": "0", "NODE_RANK": "0", "SEED": "3", "MLFLOW_RUN_ID": "1", "MODEL_DIR": "/tmp"}


def asked(code, program=OURS, more="", **variables):
    words = json.dumps([program, USUAL | variables, more])
    lines = [sys.executable, "-c", START + ASKED, str(code), words]
    return subprocess.check_output(lines, text=True, timeout=60) == "True\n"


@pytest.fixture
def code(tmp_path):
    builtin.copy_trainers(tmp_path / "code")
    return tmp_path / "code"


def test_trainers_of_ours_are_forked(code):
    (code / builtin.PLACE / "__pycache__").mkdir()
    assert asked(code)


@pytest.mark.parametrize(
    "given",
    [
        {"program": ["sh", "-c", "exec python3 trainers/pytorch_classifier.py"]},
        {"program": ["python3", "train.py"]},
        {"program": ["python3", "trainers/xgboost_classifier.py"]},
        {"program": ["python3"]},
        {"program": []},
        {"TORCH_LOGS": "+dynamo"},
        {"LD_PRELOAD": "libtcmalloc.so"},
        {"PATH": "/usr/bin:/bin"},
        {"OMP_NUM_THREADS": "2,1"},
        {"PYTHONPATH": "/packages"},
        {"more": "GPU"},
        {"more": "helpers"},
        {"more": "thread"},
        {"more": "no library"},
        {"more": "tensorflow"},
    ],
    ids=str,
)
def test_nothing_else_is(code, given):
    assert not asked(code, **given)


@pytest.mark.parametrize("file", ["train.py", f"{builtin.PLACE}/helpers.py"])
def test_a_trainer_that_somebody_has_changed_is_not(code, file):
    (code / file).write_text("import torch\n")
    assert not asked(code)


JOB = """
import torch, torch._dynamo
from pathlib import Path
from trireme.runner.local import runner
started = []
start = forked.start
forked.start = lambda *given: (started.append(given[1]), start(*given))[1]
os.environ.pop("PYTHONPATH", None)
os.chdir(sys.argv[1])
forked.usage.has_gpu = lambda: False
runner.run(json.loads(sys.argv[2]), Path("logs"), lambda name, lines: print(name, lines))
print("forked:", len(started))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_a_job_is_of_forks(code, folder, workers):
    places = {name: str(folder / name) for name in ("data_dir", "checkpoint_dir", "model_dir")}
    job = TrainingJob(
        name="job",
        framework="pytorch",
        entrypoint=OURS[1],
        args=["--help"],
        code_dir=str(code),
        workers=workers,
        **places,
    )
    words = [sys.executable, "-c", START + JOB, str(folder), json.dumps(render(job))]
    as_a_step = WAITING | {"PYTHONUNBUFFERED": "1"}
    printed = subprocess.check_output(words, text=True, timeout=120, env=os.environ | as_a_step)
    assert printed.count("usage: pytorch_classifier.py") == workers + 1
    assert f"forked: {workers + 1}" in printed
