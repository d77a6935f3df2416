"""Times in any usual spelling."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streamgp.columns.times import KINDS, Clock

AT = datetime(2004, 3, 14, 18, 5, 0)  # a Sunday
SPELLED = [
    "2004-03-14 18:05", "2004-03-14T18:05:00", "2004-03-14T18:05:00.000000000", "2004/3/14 18:05", "20040314 1805",
    "200403141805", "20040314180500", "14/03/2004 18.05.00", "14.03.2004 18:05", "14-03-04 18:05:00",
    "3/14/2004 6:05 PM",
    "14-Mar-2004 18:05", "14 March 2004 18:05", "Mar 14, 2004 6:05:00 pm",
    "2004-03-14 18:05:00Z", "2004-03-14 18:05 UTC",
    "1079287500", "1079287500.0", "1079287500000", "1079287500000000000",
]  # fmt: skip


def clock(**more):
    return Clock(("t",), KINDS, **more)


@pytest.mark.parametrize("text", SPELLED)
def test_every_usual_spelling_is_the_same_time(text):
    seconds, shown, wrong = clock().learned([text]).read([text])
    assert wrong == []
    assert seconds[0] == shown[0] == AT.replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "text",
    ["x", "2004", "1.5", "2004-13-01", "31/02/2004", "2004-03-14 25:00", "13:00 PM", "14/03", "201603",
     "2004-03-14 18:5",     "1_079_287_500", "٢٠٠٤-03-14x", "nan", "99/99/99", "1e400"],
)  # fmt: skip
def test_other_texts_are_no_time_and_none_is_guessed(text):
    assert clock().read(["2004-03-14", text, ""])[2] == [1]


@pytest.mark.parametrize("text", ["0001-01-01 00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_that_its_zone_puts_beyond_the_years_of_a_calendar_is_no_time(text):
    assert clock(zone="Europe/Rome").read([text, "2026-03-04 05:00"])[2] == [0]


def test_the_order_of_day_and_month_is_learned_from_rows_that_show_it():
    def month(c, text):
        return datetime.fromtimestamp(c.read([text])[0][0], UTC).month

    assert month(clock(), "10/03/2004") == 3
    assert month(clock(), "10/03/2004 6:00 AM") == 10  # where the clock has am and pm, the month comes first
    for shown, expected in (("03/14/2004", 10), ("14/03/2004", 3), ("10/03/2004", 3)):
        learned = clock().learned(["", "01/02/2004", shown])
        assert month(learned, "10/03/2004") == expected
    # What was shown once holds: a row that contradicts it is no time.
    assert clock().learned(["14/03/2004"]).learned(["03/14/2004"]).read(["03/14/2004"])[2] == [0]


def test_offsets_and_zones_are_respected_and_the_clock_on_the_wall_is_what_cycles_follow():
    seconds, shown, _ = clock().read(["2004-03-14 18:05:00+01:00", "2004-03-14 18:05-0530"])
    at = AT.replace(tzinfo=UTC).timestamp()
    np.testing.assert_array_equal(seconds, [at - 3600, at + 5.5 * 3600])
    np.testing.assert_array_equal(shown, [at, at])
    seconds, shown, _ = clock(zone="Europe/Rome").read(["2004-03-14 17:05Z", "2004-03-14 18:05"])
    np.testing.assert_array_equal(seconds, [at - 3600, at - 3600])
    np.testing.assert_array_equal(shown, [at, at])


@pytest.mark.parametrize("step", [10, 30, 60])
def test_an_hour_that_comes_twice_or_never_does_not_stop_or_turn_the_time(step):
    """The end and the beginning of summer time in Rome, as clocks on the wall show them."""
    from zoneinfo import ZoneInfo

    for start in (datetime(2004, 10, 30, 20), datetime(2004, 3, 27, 20)):
        times = [start.replace(tzinfo=UTC) + timedelta(minutes=step * i) for i in range(600 // step)]
        texts = [t.astimezone(ZoneInfo("Europe/Rome")).strftime("%Y-%m-%d %H:%M") for t in times]
        c = clock(zone="Europe/Rome")
        got = []
        for text in texts:  # one by one, as from a pipe
            seconds, shown, _ = c.read([text])
            _, c = c.given(seconds, shown)
            got.append(seconds[0])
        np.testing.assert_array_equal(got, [t.timestamp() for t in times])


def test_features_are_cycles_of_a_day_a_week_and_a_year_and_the_days_since_the_first_row():
    c = clock()
    texts = ["2004-03-08 06:00", "2004-03-09 06:00", "2004-03-15 06:00", "", "2004-03-08 12:00"]
    seconds, shown, _ = c.read(texts)
    features, after = c.given(seconds, shown)
    assert c.features == ("day_sin", "day_cos", "week_sin", "week_cos", "year_sin", "year_cos", "trend")
    by_name = dict(zip(c.features, features.T, strict=True))
    rounding = 1e-6  # of angles of some 2e5 radians
    np.testing.assert_allclose(by_name["day_sin"], [1, 1, 1, np.nan, 0], atol=rounding)
    np.testing.assert_allclose(by_name["week_sin"][0], by_name["week_sin"][2], atol=rounding)
    np.testing.assert_allclose(by_name["week_cos"][0], np.cos(2 * np.pi * 0.25 / 7), atol=rounding)
    np.testing.assert_allclose(by_name["trend"], [0, 1, 7, np.nan, 0.25], atol=1e-12)
    later, _ = after.given(*after.read(["2004-03-18 06:00"])[:2])
    assert later[0, -1] == 10
    some = Clock(("t",), ("week",))
    assert some.features == ("week_sin", "week_cos")
    np.testing.assert_array_equal(some.given(seconds, shown)[0][:, 0], by_name["week_sin"])


def test_a_time_may_stand_in_several_columns_or_in_a_format_of_its_own():
    parts = Clock(("Hour", "day", "month", "year"), KINDS)
    assert parts.joined([["18", "5.0"], ["14", "1"], ["3", "2"], ["2004", "2005"]]) == [
        "2004-03-14 18:00", "2005-02-01 05:00",
    ]  # fmt: skip
    two = Clock(("Date", "Time"), KINDS)
    assert two.joined([["14/03/2004", ""], ["18.05", "1"]]) == ["14/03/2004 18.05", ""]
    odd = clock(format="%Y week %W %a")
    assert odd.read(["2004 week 10 Sun"])[0][0] == datetime(2004, 3, 14, tzinfo=UTC).timestamp()
    assert odd.read(["2004-03-14"])[2] == [0]
