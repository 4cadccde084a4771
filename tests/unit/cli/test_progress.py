from __future__ import annotations

from types import SimpleNamespace

from agon.ablation.run import MatrixState, Running
from agon.cli.progress import CellsProgress, MatrixProgress, StagesProgress, StepProgress


def test_a_file_gets_the_last_step_once_and_not_every_step(capsys):
    with StepProgress(3) as progress:
        for step in range(3):
            progress.on_step(step, {"draft/accuracy": 0.5})
    assert capsys.readouterr().err.splitlines() == ["step 3/3  draft 0.5"]


def test_a_step_tells_how_many_groups_had_no_signal(capsys):
    with StepProgress(1) as progress:
        progress.on_step(0, {"draft/accuracy": 0.2, "draft/dead_group_share": 0.68, "draft/entropy": None})
    assert capsys.readouterr().err == "step 1/1  draft 0.2  no signal 0.68\n"


def test_finished_cells_are_told_once(capsys):
    with CellsProgress({"a": 2, "b": 2}) as progress:
        for _ in range(3):
            progress.update({"a": 2, "b": 2})
    assert capsys.readouterr().err.splitlines() == ["training: a 2/2, b 2/2"]


def test_a_file_gets_a_line_at_least_every_15_s(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agon.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    with CellsProgress({"a": 100}) as progress:
        for second in range(61):
            now[0] = float(second)
            progress.update({"a": second})
    assert capsys.readouterr().err.splitlines() == [f"training: a {done}/100" for done in (15, 30, 45, 60)]


def test_every_stage_of_long_work_is_told_by_its_name(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agon.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    with StagesProgress() as progress:
        for second, stage, done in ((1, "reading", 0), (16, "reading", 9), (20, "judging", 1), (40, "judging", 5)):
            now[0] = float(second)
            progress.update(stage, done, 9)
    assert capsys.readouterr().err.splitlines() == ["reading: 9/9", "judging: 5/9"]


def test_a_matrix_tells_what_runs_and_about_how_long_the_rest_takes(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agon.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    training = Running("agon-s0", steps=30, total_steps=90, evaluations=0, total_evaluations=7)
    measuring = Running("grpo-s0", steps=90, total_steps=90, evaluations=2, total_evaluations=3)
    with MatrixProgress() as progress:
        for second, done in ((15, 0), (120, 2)):
            now[0] = float(second)
            progress.update(MatrixState(done, 10, (training, measuring)))
    cells = "agon-s0 step 30/90, grpo-s0 evaluation 2/3"
    # 2 of 10 cells took 120 s: the other 8 take 480 s
    assert capsys.readouterr().err.splitlines() == [f"cells 0/10: {cells}", f"cells 2/10, about 8 min left: {cells}"]
