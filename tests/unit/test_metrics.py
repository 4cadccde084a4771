import pytest

from agon.metrics import METRICS, PACE, TIMINGS, check_names


def test_every_metric_says_its_unit_formula_and_bad_value():
    for name, metric in (*METRICS.items(), *TIMINGS.items(), *PACE.items()):
        assert metric.name == name
        assert metric.unit
        assert metric.formula
        assert metric.bad


def test_both_streams_have_the_same_metrics():
    draft = {name.removeprefix("draft/") for name in METRICS if name.startswith("draft/")}
    challenge = {name.removeprefix("challenge/") for name in METRICS if name.startswith("challenge/")}
    assert draft == challenge
    assert {"accuracy", "entropy", "logprob_gap_mean", "tokens_learned"} <= draft


def test_the_family_is_what_stands_before_the_slash():
    assert METRICS["draft/loss"].family == "draft"
    assert METRICS["step"].family == ""


def test_known_names_pass_and_an_unknown_one_is_refused_with_the_nearest():
    check_names({"step": 0, "draft/accuracy": 0.5, "pair/distance": 1.0})
    with pytest.raises(
        ValueError, match=r"metric 'match/conversoin' is not in agon\.metrics \(did you mean 'match/conversion'\?\)"
    ):
        check_names(["step", "match/conversoin"])
