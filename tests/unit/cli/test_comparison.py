from dataclasses import replace

from agon.cli import comparison as shown
from agon.comparison.records import (
    Arm,
    ArmRun,
    Comparison,
    Effect,
    FrontierPoint,
    PairedTest,
    Panel2x2,
    Row,
    SeedResult,
    Subject,
    Tokens,
)
from agon.stats import Interval, clopper_pearson


def row(arm, protocol, who, right, *, seeds=(0,), total=40.0, direction=None, **more):
    interval = clopper_pearson(right, 200)
    return Row(
        id=f"{arm}:{protocol}:{who}",
        arm=arm,
        title=arm,
        protocol=protocol,
        who=who,
        direction=direction,
        drafts=1,
        seeds=seeds,
        n=200,
        samples=1,
        accuracy=right / 200,
        interval=interval,
        interval_kind=interval.kind,
        seed_sd=None,
        per_seed=(SeedResult(0, right / 200, interval, "runs/x", ("l",)),),
        tokens=Tokens(total / 2, total / 2, 11.0, 24.0, 35.0, total),
        truncated_share=0.02,
        **more,
    )


def comparison(*, arms=("grpo", "self-refine-conversion"), notes=()):
    rows, points = [], []
    for arm in arms:
        for who, right in (("a-b", 100), ("b-a", 120), ("mean", 110), ("chosen", 120)):
            rates = {"conversion": 0.38, "regression": 0.12, "blind_second": 0.27, "counted": {"conversion": 1100}}
            rows.append(row(arm, "cascade", who, right, direction=who, **rates))
        rows.append(row(arm, "single", "a", 90, total=20.0))
    rows.append(row("grpo-doubled-cap", "single", "a", 150, total=30.0))
    for item in rows:
        points.append(
            FrontierPoint(
                item.id,
                item.accuracy,
                item.tokens.total,
                75.0,
                "doubled" in item.arm,
                "doubled" in item.arm,
                None if "doubled" in item.arm else "grpo-doubled-cap:single:a",
            )
        )
    interval = Interval(-0.2345, -0.0658, 0.95, "cluster-bootstrap", "problem")
    tests = [
        PairedTest(
            f"{arm}:cascade:chosen",
            "grpo-doubled-cap:single:a",
            "mcnemar-exact",
            200,
            (1, 1),
            -0.15,
            interval,
            0.00002,
            0.04,
            "against grpo-doubled-cap",
            10,
            40,
            0.087,
        )
        for arm in arms
    ]
    tests[-1] = PairedTest(
        tests[-1].first,
        tests[-1].second,
        "mcnemar-exact",
        200,
        (1, 1),
        -0.15,
        interval,
        0.3,
        0.6,
        "against grpo-doubled-cap",
        10,
        40,
        None,
    )
    return Comparison(
        subject=Subject("countdown-lite", "test", 200, 1234, 0.6, 0.95, "d0"),
        arms=tuple(
            Arm(name, name, name, headline=f"{name}:cascade:chosen", runs=(ArmRun(0, "runs/x", 9, 9),)) for name in arms
        ),
        rows=tuple(rows),
        tests=tuple(tests),
        panel_2x2=Panel2x2((), (Effect("interaction", 0.01, interval),)),
        init_panel=(),
        frontier=tuple(points),
        notes=tuple(notes),
    )


def printed(capsys, tree):
    shown.print_comparison(tree)
    return capsys.readouterr().out.splitlines()


def test_the_table_shows_directions_tokens_and_intervals_within_100_columns(capsys):
    lines = printed(capsys, comparison())
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert lines[0].strip() == "countdown-lite, test: 200 problems"
    (cascade,) = [line.split() for line in lines if line.startswith("grpo: cascade") and "[.5" in line]
    # 120 of 200 has the exact interval [.5285, .6685]
    assert cascade == [
        "grpo:",
        "cascade",
        "1",
        ".600",
        "[.529,.668]",
        ".500",
        ".600",
        ".550",
        "20.0",
        "20.0",
        "40.0",
        ".02",
    ]
    (single,) = [line.split() for line in lines if line.startswith("self-refine-conversion: single")]
    assert single[5:8] == ["-", "-", "-"]


def test_what_the_challenges_did_stands_beside_the_blind_second_pass(capsys):
    lines = printed(capsys, comparison())
    (line,) = [line for line in lines if line.startswith("grpo: cascade") and "(1100)" in line]
    assert line.split()[2:] == [".380", "(1100)", ".270", ".120", "11.0", "24.0"]


def test_every_test_shows_both_p_values_and_what_it_could_have_seen(capsys):
    lines = printed(capsys, comparison())
    start = next(i for i, line in enumerate(lines) if line.startswith("against grpo-doubled-cap (single)"))
    first, second = (line.split() for line in lines[start + 3 : start + 5])
    assert first[2:] == ["-0.150", "[-0.234,", "-0.066]", "1/1", "10", "40", "<.0001", ".0400*", ".087"]
    assert second[-3:] == [".3000", ".6000", "-"]
    text = " ".join(" ".join(lines).split())
    assert "interaction: +0.010 [-0.234, -0.066]" in text
    assert (
        "grpo-doubled-cap: single is, by the means, as accurate on no more tokens as grpo, self-refine-conversion"
        in text
    )


def test_a_rival_that_shares_its_protocol_with_others_names_its_player(capsys):
    tree = comparison(arms=("grpo",))
    by_id = {item.id: item for item in tree.rows}
    other = replace(by_id["grpo:single:a"], id="grpo:single:b", who="b")
    tests = [
        replace(tree.tests[0], first="grpo:cascade:chosen", second=second, family=f"against {second}")
        for second in ("grpo:cascade:mean", "grpo:single:b", "grpo-doubled-cap:single:a")
    ]
    lines = printed(capsys, replace(tree, rows=(*tree.rows, other), tests=tuple(tests)))
    assert [line.partition(":")[0] for line in lines if line.startswith("against ")] == [
        "against grpo (cascade, mean)",
        "against grpo (single, b)",
        "against grpo-doubled-cap (single)",
    ]


def test_a_cascade_that_is_not_in_the_chosen_direction_says_so_wherever_it_is_named(capsys):
    tree = comparison(arms=("grpo",))
    kept = replace(tree.rows[0], is_unchosen=True)
    point = replace(tree.frontier[0], dominated_by="grpo-doubled-cap:single:a")
    test = replace(tree.tests[0], first=tree.rows[-1].id, second=kept.id, family="against it")
    arm = replace(tree.arms[0], headline=kept.id)
    lines = printed(
        capsys,
        replace(tree, arms=(arm,), rows=(kept, *tree.rows[-2:]), frontier=(point, *tree.frontier[-2:]), tests=(test,)),
    )
    # in the table of results, and in that of the challenges
    assert sum(line.startswith("grpo: cascade a-b, not chosen") for line in lines) == 2
    text = " ".join(" ".join(lines).split())
    assert "in the direction chosen on development problems, or as the row says;" in text
    assert "against grpo (cascade, a-b, not chosen): arm minus rival" in text
    assert "as accurate on no more tokens as grpo (a-b, not chosen)" in text


def test_where_no_direction_was_chosen_the_row_names_the_mean(capsys):
    tree = comparison(arms=("grpo",))
    lines = printed(capsys, replace(tree, rows=(*tree.rows[:3], *tree.rows[-2:]), arms=(), tests=(), frontier=()))
    assert any(line.startswith("grpo: cascade mean ") for line in lines)


def test_a_doubled_cap_is_named_in_plain_words(capsys):
    tree = comparison(arms=("grpo",))
    plain, doubled = tree.rows[-2], replace(tree.rows[-2], id="grpo:single-doubled-cap:a", has_doubled_cap=True)
    again = replace(doubled, id="again", label="single-a-again")
    test = replace(tree.tests[0], first=plain.id, second=doubled.id, family="against it")
    lines = printed(capsys, replace(tree, rows=(*tree.rows, doubled, again), tests=(test,)))
    named = [line for line in lines if line.startswith("grpo: single")]
    # One line each in the table of results, before those of the tests; what follows a name there is the number of trainings, 1.
    assert [line.partition(" 1 ")[0].strip() for line in named[:3]] == [
        "grpo: single",
        "grpo: single, doubled cap",
        "grpo: single-a-again, doubled cap",
    ]
    assert any(line.startswith("against grpo (single, doubled cap): arm minus rival") for line in lines)


def test_many_arms_are_shown_by_their_headlines_and_the_rest_is_counted(capsys):
    tree = comparison(arms=tuple(f"arm{i}" for i in range(21)), notes=("runs/x has done 2 of 9 steps",))
    lines = printed(capsys, tree)
    # 21 arms in two protocols and the doubled cap: 43 lines are more than 40
    assert sum(line.startswith("arm3: cascade") for line in lines) == 3
    assert not any(line.startswith("arm3: single") for line in lines)
    assert "  22 rows of other protocols: --protocol NAME, or --json" in lines
    assert lines[-1] == "note: runs/x has done 2 of 9 steps"


def test_names_and_notes_from_foreign_folders_give_the_terminal_no_orders(capsys):
    shown.print_comparison(comparison(arms=("\x1b[31mgrpo", "[bold]agon"), notes=["\x1b]52;c;aGk=\x07 of a run"]))
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert "\\x1b[31mgrpo" in told
    assert "[bold]agon" in told
    assert "note: \\x1b]52;c;aGk=\\x07 of a run" in told
