from agon.comparison.arms import plan_arms
from agon.comparison.collect import collect
from agon.comparison.ledger import frontier
from agon.comparison.rows import build_rows


def tokens(total, read=10.0):
    return {"draft": total, "summary_prefill": 0.0, "challenge": 0.0, "total": total, "prefill_total": read}


def points_of(*paths):
    collected = collect(paths)
    built, _ = build_rows(plan_arms(collected), collected.measured, protocols=None, seed=1)
    return {point.row: point for point in frontier([item.row for item in built])}


def test_a_row_is_beaten_by_what_is_as_good_for_less_or_better_for_as_much(fake, tmp_path):
    run = fake.run(tmp_path / "grpo", "grpo")
    two = {"drafters": ["A", "A"], "challenger": None}
    fake.evaluate(run, "single", "1000", method="grpo", tokens=tokens(20))
    fake.evaluate(run, "majority", "1100", method="grpo", protocol="majority", players=two, tokens=tokens(40))
    fake.evaluate(run, "self", "1100", method="grpo", protocol="self-cascade", tokens=tokens(45, 30.0))
    cap = fake.run(tmp_path / "cap", "grpo", rollout__max_draft_tokens=88)
    fake.evaluate(cap, "single", "1111", method="grpo", tokens=tokens(40))
    points = points_of(run, cap)
    assert next(iter(points)) == "grpo:single:a"
    # 1/4 at 20 and 4/4 at 40 stay; 2/4 at 40 and at 45 are beaten by 4/4 at 40.
    assert {name: point.dominated_by for name, point in points.items()} == {
        "grpo:single:a": None,
        "grpo-doubled-cap:single:a": None,
        "grpo:majority-k2:a": "grpo-doubled-cap:single:a",
        "grpo:self-cascade:a": "grpo-doubled-cap:single:a",
    }
    assert [name for name, point in points.items() if point.is_on_front] == [
        "grpo:single:a",
        "grpo-doubled-cap:single:a",
    ]
    assert {name for name, point in points.items() if point.is_rival} == {"grpo-doubled-cap:single:a"}
    assert points["grpo:self-cascade:a"].all_tokens == 75.0


def test_a_vote_is_a_rival_from_three_answers_on(fake, tmp_path):
    run = fake.run(tmp_path / "grpo", "grpo")
    for count in (2, 3, 4):
        players = {"drafters": ["A"] * count, "challenger": None}
        fake.evaluate(run, f"k{count}", "1100", method="grpo", protocol="majority", players=players)
    points = points_of(run)
    assert [name for name in points if points[name].is_rival] == ["grpo:majority-k3:a", "grpo:majority-k4:a"]


def test_the_likeliest_is_a_rival_from_two_drafts_on(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    for label, drafters in (("own", ["A", "A"]), ("both", ["A", "B"])):
        fake.evaluate(run, label, "1100", protocol="likeliest", players={"drafters": drafters, "challenger": None})
    assert all(point.is_rival for point in points_of(run).values())


def test_one_pass_with_a_doubled_cap_is_a_rival_and_a_point_of_its_own(fake, tmp_path):
    run = fake.run(tmp_path / "grpo", "grpo")
    fake.evaluate(run, "plain", "1000", method="grpo", tokens=tokens(20))
    fake.evaluate(run, "long", "1100", method="grpo", tokens=tokens(30), doubled_cap=True)
    points = points_of(run)
    assert {name: point.is_rival for name, point in points.items()} == {
        "grpo:single:a": False,
        "grpo:single-doubled-cap:a": True,
    }


def test_equal_rows_share_the_front(fake, tmp_path):
    runs = [fake.run(tmp_path / name, name) for name in ("agon", "grpo")]
    for run in runs:
        fake.evaluate(run, "single", "10", method=run.name)
    assert all(point.is_on_front for point in points_of(*runs).values())


def test_a_pair_stands_on_it_once_a_protocol_by_its_chosen_direction_or_the_mean(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    for direction, marks in (("a-b", "10"), ("b-a", "11")):
        fake.evaluate(run, direction, marks, protocol="cascade", direction=direction, chosen=direction == "a-b")
    fake.evaluate(run, "single-a", "10")
    fake.evaluate(run, "single-b", "00", players={"drafters": ["B"], "challenger": None})
    assert set(points_of(run)) == {"agon:cascade:chosen", "agon:single:mean"}
