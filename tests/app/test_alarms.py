"""Alarms: rules, what raises them, and that they are the same however a stream is cut."""

import numpy as np
import pytest

from streamgp import checkpoint
from streamgp.app.alarms import KEPT, Alarms, Scored, parse, parse_all
from streamgp.app.drift import Drift
from streamgp.errors import ParameterError

ALL = ("coverage", "rmse", "bias", "missing", "drift")


def scored(errors, first_line=1, refused=None, missing=None):
    """Rows with errors (b,) or (b, q) in predicted standard deviations; intervals of 90 %."""
    errors = np.asarray(errors, dtype=float)
    errors = errors[:, None] if errors.ndim == 1 else errors
    b = len(errors)
    return Scored(
        np.arange(first_line, first_line + b), errors, np.zeros(errors.shape), np.ones(errors.shape),
        np.abs(errors) < 1.645, np.zeros(b, dtype=bool) if refused is None else refused,
        np.zeros((b, 2), dtype=bool) if missing is None else missing, [f"line {first_line + i}" for i in range(b)],
    )  # fmt: skip


def alarms(*rules, targets=("y",)):
    return Alarms.of(parse_all(rules), targets, ("a", "b"))


def raised(errors, *rules, batch=100, **more):
    """The alarms that a stream of errors raises."""
    now, found = alarms(*rules), []
    for i in range(0, len(errors), batch):
        part = {name: values[i : i + batch] for name, values in more.items()}
        now, new = now.add(scored(errors[i : i + batch], i + 1, **part))
        found += new
    assert now.count == len(found)
    assert now.kept == tuple(found[-KEPT:])
    return found


def ordinary(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize(
    "text",
    ["coverage<0.8 over 500", "rmse>3.25 over 200", "rmse of NOx(GT)>2x over 50", "bias of a b>1e-05 over 20",
     "missing of T 1>0.2 over 144", "drift>1e+06", "drift of y over there>1e+09"],
)  # fmt: skip
def test_a_rule_is_printed_as_it_is_read(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_defaults_follow_the_level_and_all_stands_for_each_kind():
    assert parse("coverage", 0.9).bound == pytest.approx(0.8)
    assert parse("coverage", 0.5).bound == pytest.approx(0.25)
    assert tuple(rule.kind for rule in parse_all(["all", "drift"])) == ALL


@pytest.mark.parametrize(
    ("text", "said"),
    [("cover<0.8", "is not an alarm"), ("coverage>0.8", "when it is <"), ("coverage<1.5", "share of rows"),
     ("rmse>-1", "above 0"), ("rmse>nan", "above 0"), ("missing>2x", "suits rmse"), ("drift over 100", "leave out"),
     ("rmse>1 over 1", "2 to 10,000"), ("rmse>1 over 20000", "2 to 10,000"), ("", "is not an alarm")],
)  # fmt: skip
def test_what_is_no_rule_is_refused_with_the_remedy(text, said):
    with pytest.raises(ParameterError, match=said):
        parse(text)


def test_a_rule_about_something_that_is_not_there_is_refused():
    for text in ("rmse of z>1", "missing of y>0.1"):
        with pytest.raises(ParameterError, match="names none of"):
            alarms(text)


def test_coverage_is_that_of_the_last_rows_and_raised_once():
    errors = np.where(np.arange(1000) % 10 == 0, 9.0, 0.0)
    errors[400:450] = 9.0  # at row 445, 9 + 41 of the last 200 are outside
    (alarm,) = raised(errors, "coverage<0.75 over 200")
    inside = np.abs(errors) < 1.645
    first = next(i for i in range(200, 1000) if inside[i - 199 : i + 1].mean() < 0.75)
    assert alarm.line == first + 1
    assert alarm.value == pytest.approx(inside[first - 199 : first + 1].mean())


def test_an_alarm_is_raised_again_only_after_its_rule_has_not_held_for_as_many_rows():
    for pause, count in ((30, 1), (120, 2)):
        errors = np.concatenate([np.zeros(100), np.full(50, 5.0), np.zeros(pause), np.full(50, 5.0)])
        assert len(raised(errors, "rmse>4 over 50")) == count


def test_a_bound_with_an_x_is_a_multiple_of_the_rmse_of_the_rows_before_the_window():
    errors = np.concatenate([np.full(300, 0.5), np.full(100, 1.4), np.full(300, 1.6)])
    (alarm,) = raised(errors, "rmse>2x over 100")
    window = lambda i: np.sqrt(np.mean(errors[i - 100 : i] ** 2) / np.mean(errors[: i - 100] ** 2))  # noqa: E731
    first = next(i for i in range(200, 701) if window(i) > 2)
    assert alarm.line == first
    assert alarm.value == pytest.approx(window(first))


def test_bias_sees_errors_of_one_sign_where_the_rmse_is_as_before():
    errors = np.sign(ordinary(2000))
    errors[1000:] = 1.0
    assert raised(errors, "rmse>1.2x over 100") == []
    assert 1050 < raised(errors, "bias>0.8x over 100")[0].line < 1110


def test_missing_names_the_column_that_fell_silent():
    missing = np.zeros((600, 2), dtype=bool)
    missing[::10, 0], missing[300:, 1] = True, True
    (alarm,) = raised(np.full(600, np.nan), "missing>0.5 over 100", missing=missing)
    assert (alarm.name, alarm.line) == ("b", 351)
    assert raised(np.full(600, np.nan), "missing of a>0.5 over 100", missing=missing) == []


def test_refused_rows_count_for_drift_alone():
    errors = ordinary(900)
    errors[600:] += 8.0
    refused = np.arange(900) >= 600
    assert raised(errors, "coverage", "rmse", "bias", refused=refused) == []
    assert raised(errors, "drift", refused=refused)[0].line < 630


@pytest.mark.parametrize("how", ["higher", "lower", "larger"])
def test_drift_is_found_within_200_rows_and_says_how(how):
    for seed in range(5):
        errors = ordinary(1500, seed)
        errors[1000:] = {
            "higher": errors[1000:] + 1.0,
            "lower": errors[1000:] - 1.0,
            "larger": 3 * errors[1000:],
        }[how]
        alarm = raised(errors, "drift")[0]
        assert 1000 < alarm.line <= 1200
        assert how in alarm.text or (how == "larger" and "less steady" in alarm.text)


def correlated(n, keep, seed):
    rng = np.random.default_rng(seed)
    errors = np.zeros(n)
    for i in range(1, n):
        errors[i] = keep * errors[i - 1] + np.sqrt(1 - keep**2) * rng.standard_normal()
    return errors


def test_ordinary_rows_raise_no_alarm_at_the_defaults_not_even_with_heavy_tails_or_correlated():
    n = 6000
    heavy = np.random.default_rng(1).standard_t(3, n) / np.sqrt(3)
    # The last is a slow wave below independent noise: what remains after the score before has told all it can.
    for errors in (
        ordinary(n),
        heavy,
        correlated(n, 0.9, 1),
        0.6 * correlated(n, 0.98, 1) + 0.8 * ordinary(n, 2),
    ):
        assert raised(errors, "drift") == []
    for errors in (ordinary(n), heavy, correlated(n, 0.9, 1)):
        assert raised(errors, "all") == []


def test_one_wild_error_is_no_drift_also_where_errors_hardly_change():
    for errors in (ordinary(2000), correlated(2000, 0.99, 3)):
        for wild in ((1e300, -np.inf, 1e9), (50.0, -50.0, 1e9)):
            errors[[700, 900, 1100]] = wild
            assert raised(errors, "drift") == []


def test_noise_on_errors_that_hardly_change_is_found_by_their_changes():
    for seed in range(3):
        errors = correlated(1400, 0.95, seed)
        errors[1000:] += 0.8 * ordinary(400, seed + 10)
        (alarm,) = raised(errors, "drift")
        assert 1000 < alarm.line <= 1100
        assert "less steady" in alarm.text


def test_alarms_of_several_rules_come_in_the_order_of_the_rows():
    errors = np.concatenate([np.zeros(300), np.full(300, 4.0)])
    found = raised(errors, "rmse>3 over 200", "rmse>3 over 20", "coverage<0.5 over 60", batch=600)
    assert [alarm.line for alarm in found] == sorted(alarm.line for alarm in found)
    assert len(found) == 3


def test_the_test_for_drift_begins_anew_after_an_alarm():
    errors = ordinary(2500)
    errors[1000:] += 2.0
    assert len(raised(errors, "drift")) == 1
    errors[2000:] += 2.0
    assert [alarm.line // 1000 for alarm in raised(errors, "drift")] == [1, 2]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_alarms_do_not_depend_on_how_rows_are_batched(batch):
    errors = ordinary(1200)
    errors[700:] += 1.5
    missing = np.random.default_rng(0).random((1200, 2)) < np.linspace(0, 0.9, 1200)[:, None]
    rules = (
        "coverage<0.8 over 60",
        "rmse>1.5x over 50",
        "bias>0.5 over 40",
        "missing>0.5 over 70",
        "drift>1e6",
    )
    expected = raised(errors, *rules, missing=missing)
    assert {alarm.rule.split("<")[0].split(">")[0] for alarm in expected} == set(ALL)
    found = raised(errors, *rules, batch=batch, missing=missing)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_targets_are_looked_at_apart_and_labels_may_be_missing_in_part():
    errors = np.stack([ordinary(900), ordinary(900, 1)], axis=1)
    errors[500:, 1] += 4
    errors[::2, 0] = np.nan
    now, found = alarms("all", "rmse of u>1e9 over 10", targets=("u", "v")), []
    for i in range(0, 900, 50):
        now, new = now.add(scored(errors[i : i + 50], i + 1))
        found += new
    assert found
    assert {alarm.name for alarm in found} == {"v"}


def test_alarms_resume_from_a_checkpoint_as_if_never_stopped(tmp_path):
    errors = ordinary(1500)
    errors[800:900] += 3
    missing = np.zeros((1500, 2), dtype=bool)
    missing[700:, 0] = True
    expected = raised(errors, "all", missing=missing)
    assert expected
    now, found = alarms("all"), []
    for i in range(0, 1500, 100):
        checkpoint.write(tmp_path / "c", now.to_dict())
        now = alarms("all").restored(checkpoint.read(tmp_path / "c"))
        now, new = now.add(scored(errors[i : i + 100], i + 1, missing=missing[i : i + 100]))
        found += new
    assert found == expected
    assert now.kept == tuple(expected[-KEPT:])


def test_evidence_of_drift_is_that_of_its_reference_alone_when_it_begins():
    test = Drift()
    for error in ordinary(299):
        test, _ = test.add(np.array([error]), 0.0)
    assert not test.evidence.any()
