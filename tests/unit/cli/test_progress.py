from __future__ import annotations

from agon.cli.progress import CellsProgress, StagesProgress, StepProgress


def test_a_file_gets_the_last_step_once_and_not_every_step(capsys):
    with StepProgress(3) as progress:
        for step in range(3):
            progress.on_step(step, {"draft/accuracy": 0.5})
    assert capsys.readouterr().err.splitlines() == ["step 3/3  draft 0.5"]


def test_finished_cells_are_told_once(capsys):
    with CellsProgress({"a": 2, "b": 2}) as progress:
        for _ in range(3):
            progress.update({"a": 2, "b": 2})
    assert capsys.readouterr().err.splitlines() == ["training: a 2/2, b 2/2"]


def test_a_file_gets_a_line_at_least_every_15_s(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agon.cli.progress.time.monotonic", lambda: now[0])
    with CellsProgress({"a": 100}) as progress:
        for second in range(61):
            now[0] = float(second)
            progress.update({"a": second})
    assert capsys.readouterr().err.splitlines() == [f"training: a {done}/100" for done in (15, 30, 45, 60)]


def test_every_stage_of_long_work_is_told_by_its_name(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agon.cli.progress.time.monotonic", lambda: now[0])
    with StagesProgress() as progress:
        for second, stage, done in ((1, "reading", 0), (16, "reading", 9), (20, "judging", 1), (40, "judging", 5)):
            now[0] = float(second)
            progress.update(stage, done, 9)
    assert capsys.readouterr().err.splitlines() == ["reading: 9/9", "judging: 5/9"]
