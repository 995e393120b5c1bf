"""Cron in a time zone: how it is read, and what Kubeflow Pipelines and Argo are told of it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from trireme.errors import InputError
from trireme.schedules import cron, plans
from trireme.targets.argo.cron_workflows import five_fields
from trireme.targets.kubeflow.trigger import six_fields

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 3 * *", "wrong number of fields"),
        ("0 0 3 * * *", "wrong number of fields"),
        ("@daily", "wrong number of fields"),
        ("", "wrong number of fields"),
        ("60 3 * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 3 0 * *", "bad day of month"),
        ("0 3 31 2 *", "bad day of month"),
        ("0 3 * 13 *", "bad month"),
        ("0 3 * * 8", "bad day of week"),
        ("0 3 * * FRI-MON", "bad day of week"),
        ("*/0 3 * * *", "bad minute"),
        ("0 3 L * *", "no L, W and #"),
        ("0 3 * * MON#1", "no L, W and #"),
        ("0 3 29 2 */7", "it may not run for more than five years"),
    ],
)
def test_what_is_no_standard_cron_is_refused(text, said):
    with pytest.raises(InputError) as refusal:
        cron.parse(text)
    assert said in str(refusal.value)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["Europe/Berln", "America", "", "../../etc/passwd", "/etc", "right/UTC", 9000 * "a"]
)
def test_what_is_no_time_zone_is_refused(name):
    with pytest.raises(InputError, match="does not exist"):
        cron.zone(name)


@pytest.mark.parametrize("name", ["localtime", "posixrules", "Factory"])
def test_the_zone_of_whichever_machine_reads_it_is_refused(name):
    with pytest.raises(InputError, match=f"time zone '{name}': is another one in a pod; "):
        cron.zone(name)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "Asia/Shanghai", "Etc/GMT+4", "CET"])
def test_names_of_places_and_utc_are_zones(name):
    assert cron.zone(name) == ZoneInfo(name)


def times(text, zone, starts, count):
    found = cron.upcoming(cron.parse(text), zone, count, starts)
    return [time.strftime("%a %d %b %H:%M %z") for time in found]


def test_the_next_times_are_in_the_zone_with_its_offset():
    starts = datetime(2099, 3, 27, tzinfo=BERLIN)
    assert times("30 3 * * 5-7", BERLIN, starts, 4) == [
        "Fri 27 Mar 03:30 +0100",
        "Sat 28 Mar 03:30 +0100",
        "Sun 29 Mar 03:30 +0200",
        "Fri 03 Apr 03:30 +0200",
    ]


def test_an_hour_that_summer_time_skips_is_left_out_and_one_it_repeats_comes_twice():
    spring = times("30 2 * * *", BERLIN, datetime(2099, 3, 28, tzinfo=BERLIN), 2)
    assert spring == ["Sat 28 Mar 02:30 +0100", "Mon 30 Mar 02:30 +0200"]
    autumn = times("30 2 * * *", BERLIN, datetime(2099, 10, 25, tzinfo=BERLIN), 2)
    assert autumn == ["Sun 25 Oct 02:30 +0200", "Sun 25 Oct 02:30 +0100"]


def test_a_day_of_the_month_or_of_the_week_is_enough():
    starts = datetime(2099, 1, 1, tzinfo=UTC)
    assert times("0 0 13 * 5", UTC, starts, 3) == [
        "Fri 02 Jan 00:00 +0000",
        "Fri 09 Jan 00:00 +0000",
        "Tue 13 Jan 00:00 +0000",
    ]


# What robfig/cron 1.2 makes of these was compared with the five fields, for thousands of them.
@pytest.mark.parametrize(
    ("text", "zone", "kubeflows", "six"),
    [
        ("0 3 * * *", "UTC", "UTC", "0 0 3 * * *"),
        ("*/15 * * jan-mar MON-fri", "UTC", "UTC", "0 0,15,30,45 * * 1-3 1-5"),
        ("0 3 * * 7", "Europe/Berlin", "Europe/Berlin", "0 0 3 * * 0"),
        ("0 3 * * 1/2", "UTC", "UTC", "0 0 3 * * 0,1,3,5"),
        ("0 3 */2 * 1", "UTC", "UTC", "0 0 3 */2 * 1"),
        ("0 3 1-31 * 1", "UTC", "UTC", "0 0 3 1-31 * 1"),
        ("0 1-12 * * *", "UTC", "UTC", "0 0 1-12 * * *"),
        ("0 3 * * *", "Asia/Shanghai", "UTC", "0 0 19 * * *"),
        ("0 3 * * 1-5", "Asia/Shanghai", "UTC", "0 0 19 * * 0-4"),
        ("0 20 * * 6", "UTC", "Asia/Shanghai", "0 0 4 * * 0"),
        ("0 9 1 * *", "Asia/Shanghai", "UTC", "0 0 1 1 * *"),
        ("0 3,9 * * *", "Asia/Shanghai", "UTC", "0 0 1,19 * * *"),
        ("0 */6 * * *", "Asia/Kolkata", "UTC", "0 30 0,6,12,18 * * *"),
        ("0 3 * * *", "Europe/Berlin", "Europe/Athens", "0 0 4 * * *"),
        ("0 3 1-31 * 1", "Asia/Shanghai", "UTC", "0 0 19 * * *"),
    ],
)
def test_kubeflow_gets_six_fields_in_its_own_zone(text, zone, kubeflows, six):
    assert six_fields(text, ZoneInfo(zone), ZoneInfo(kubeflows)) == six


@pytest.mark.parametrize(
    ("text", "zone", "kubeflows", "said"),
    [
        ("0 3 * * *", "Europe/Berlin", "UTC", "change with summer time; set its CRON_SCHEDULE"),
        ("0 3 * * *", "UTC", "America/New_York", "change with summer time"),
        ("0 3 1 * *", "Asia/Shanghai", "UTC", "no single schedule in UTC"),
        ("0 3,9 * * 1", "Asia/Shanghai", "UTC", "no single schedule in UTC"),
        ("*/20 3 * * *", "Asia/Kolkata", "UTC", "no single schedule in UTC"),
        ("0 3 */2,5 * 1", "UTC", "UTC", "'*/2,5' cannot be expressed"),
    ],
)
def test_what_kubeflow_cannot_be_told_is_refused(text, zone, kubeflows, said):
    with pytest.raises(InputError) as refusal:
        six_fields(text, ZoneInfo(zone), ZoneInfo(kubeflows))
    assert said in str(refusal.value)


# What robfig/cron 3.0.1 makes of these was compared with the original, for thousands of them.
@pytest.mark.parametrize(
    ("text", "five"),
    [
        ("0 3 * * *", "0 3 * * *"),
        ("*/15  8-18 1,15 * *", "*/15 8-18 1,15 * *"),
        ("0 3 * jan-mar MON-fri", "0 3 * 1-3 1-5"),
        ("0 3 * * 7", "0 3 * * 0"),
        ("0 3 * * 5-7", "0 3 * * 0,5,6"),
        ("5/20 3 * * 1/2", "5,25,45 3 * * 0,1,3,5"),
        ("0 3 13 * 5", "0 3 13 * 5"),
        ("0 3 1,* * 5", "0 3 1-31 * 5"),
        ("0 3 *,1 * 5", "0 3 * * 5"),
        ("0 3 */2 * */1", "0 3 */2 * *"),
    ],
)
def test_argo_gets_five_fields_as_they_are_where_they_mean_the_same(text, five):
    assert five_fields(text) == five


def test_days_that_have_to_fit_both_fields_are_refused_for_argo():
    with pytest.raises(InputError, match=r"cron '0 3 \*/2 \* 1': the day has to match both"):
        five_fields("0 3 */2 * 1")


def test_a_day_of_leap_years_comes_often_enough():
    assert cron.parse("0 3 29 2 *")


def test_a_moment_of_an_hour_that_comes_twice_is_the_same_in_utc():
    there = datetime(2027, 10, 31, 2, 30, tzinfo=cron.zone("Europe/Berlin"))
    assert plans.differences({"starts": there}, {"starts": there.astimezone(UTC)}) == []


def test_a_schedule_ends_in_the_hour_that_comes_twice_when_it_says():
    there = datetime(2099, 10, 25, tzinfo=BERLIN)
    found = cron.upcoming(
        cron.parse("30 * * * *"), BERLIN, 9, there, there.replace(hour=2, minute=45)
    )
    assert [f"{time:%H:%M %z}" for time in found[-2:]] == ["01:30 +0200", "02:30 +0200"]
