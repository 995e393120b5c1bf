"""Schedules: trireme/schedules/."""

import pytest
from fuzzing import SNIPPETS, changed_text, corpus, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.schedules import cron
from trireme.schedules.schedule import Schedule
from trireme.targets.argo.cron_workflows import five_fields
from trireme.targets.kubeflow.trigger import six_fields

VALID = [file.read_text() for file in corpus("schedule", "valid-*")]
CRONS = ["0 3 * * 1-5", "*/30 8-18,20 1,15 JAN-MAR MON", "0-59/7 */2 31 */2 0,7", "5 4 L * 5#2"]
ZONES = ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]


def read_file(file):
    for schedule in Schedule.read_file(file):
        schedule.next_times(3)
    return True


def read_cron(text):
    cron.parse(text)
    zone = cron.zone("Europe/Berlin")
    return read_or_refused(five_fields, text), read_or_refused(
        six_fields, text, zone, cron.zone("UTC")
    )


@pytest.mark.parametrize("file", corpus("schedule"), ids=lambda file: file.stem)
def test_the_corpus(file):
    assert bool(read_or_refused(read_file, file)) == file.stem.startswith("valid-")


@pytest.mark.parametrize(
    "text", [f"{9 * '9' * 600} 3 * * *", "² 3 * * *", f"{',1' * 100_000}0 3 * * *", "0 3 * * \0"]
)
def test_what_has_broken_the_reader_of_cron(text):
    assert read_or_refused(read_cron, text) is None


@fuzz(150, text=changed_text(CRONS) | st.text("0123456789*/,-#L?WMONJA ") | st.text())
def test_cron_is_read_or_refused_in_a_sentence(text):
    read_or_refused(read_cron, text)


@fuzz(100, name=changed_text(ZONES) | st.sampled_from(SNIPPETS) | st.text())
def test_a_time_zone_is_found_or_refused_in_a_sentence(name):
    read_or_refused(cron.zone, name)


@fuzz(100, text=changed_text(VALID))
def test_a_file_of_schedules_is_read_or_refused_in_a_sentence(text, tmp_path):
    file = tmp_path / "schedules.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    read_or_refused(read_file, file)
