"""A matrix whose process or one of whose cells is killed, interrupted or runs out of disk: it goes on to the same bytes."""

from __future__ import annotations

import json
import random
import shutil
import signal

import pytest
from harness.folders import SEED, TINY_WORDS, content, damage, leftovers
from harness.processes import require_no_orphans, wait_until

CELLS = ("agon-s0", "agon-s1")
WORDS = ("ablate", "small.toml", "--out", "matrix")
EVALUATION = "evaluations/cascade-a-b.json"


@pytest.fixture(scope="module")
def undisturbed(starter, recipe, tmp_path_factory):
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "small.toml").write_text(recipe.read_text())
    watched = {"at": {"event": "any", "path": "cells/agon-s1/"}, "do": "record", "file": str(place / "moments")}
    ended = starter.start(*WORDS, cwd=place, environment=_cell_fault(watched)).wait()
    assert ended.code == 0, ended.told
    return place / "matrix"


@pytest.fixture
def out(recipe, place):
    (place / "small.toml").write_text(recipe.read_text())
    return place / "matrix"


def _cell_fault(fault):
    """Cells are forked from a process that reads its faults when it starts."""
    return {"AGON_FAULT": json.dumps([fault])}


def _start(starter, out, *words, cell=None, **options):
    environment = _cell_fault(cell) if cell is not None else {}
    return starter.start(*WORDS, *words, cwd=out.parent, environment=environment, **options)


def _result(path):
    found = json.loads(path.read_text())
    return {name: value for name, value in found.items() if name not in ("latency_s", "checksum")}


def _require_whole(starter, out, undisturbed):
    resumed = starter.run(*WORDS, "--resume", cwd=out.parent)
    assert resumed.code == 0, resumed.told
    for cell in CELLS:
        own, other = content(out / "cells" / cell), content(undisturbed / "cells" / cell)
        assert own == other, [name for name in other if own.get(name) != other[name]]
        path = f"cells/{cell}/{EVALUATION}"
        assert _result(out / path) == _result(undisturbed / path)
    assert not leftovers(out)


def test_a_matrix_whose_process_is_killed_lets_its_cells_save_and_end(starter, out, undisturbed):
    ablation = _start(starter, out)
    metrics = [out / "cells" / cell / "metrics.jsonl" for cell in CELLS]
    wait_until(lambda: any(path.exists() for path in metrics) or ablation.is_over, "a cell trains")
    ablation.send(signal.SIGKILL)
    ablation.wait()
    require_no_orphans(out.parent)
    _require_whole(starter, out, undisturbed)


_rng = random.Random(SEED)


@pytest.mark.parametrize("fraction", [_rng.random() for _ in range(2)])
def test_a_cell_that_is_killed_at_any_file_is_named_and_goes_on(starter, out, undisturbed, fraction):
    moments = (undisturbed.parent / "moments").read_text().splitlines()
    number = 1 + int(fraction * len(moments))
    print(f"seed {SEED}: killed before {moments[number - 1]}, moment {number} of {len(moments)}")
    any_file = {"event": "any", "path": "cells/agon-s1/", "number": number}
    ended = _start(starter, out, cell={"at": any_file, "do": "kill"}).wait()
    assert ended.code == 1, ended.told
    assert "agon: cell agon-s1: ended by signal 9" in ended.stderr
    _require_whole(starter, out, undisturbed)


@pytest.mark.parametrize(
    ("event", "part"),
    [("rename", "agon-s1/checkpoints/.step-000002"), ("open", f"agon-s1/{EVALUATION}"[:-5])],
    ids=["training", "measuring"],
)
def test_a_cell_that_is_killed_is_named_and_does_not_stop_the_others(starter, out, undisturbed, event, part):
    part = part.replace("evaluations/", "evaluations/.")
    ended = _start(starter, out, cell={"at": {"event": event, "path": part}, "do": "kill"}).wait()
    assert ended.code == 1, ended.told
    assert "agon: cell agon-s1: ended by signal 9" in ended.stderr
    assert "1 of 3 cells failed; when the cause is mended, continue with --resume" in ended.reason
    assert (out / "cells" / "agon-s0" / EVALUATION).exists()
    _require_whole(starter, out, undisturbed)


def test_a_cell_whose_disk_is_full_is_named_with_the_reason(starter, out, undisturbed):
    short = {"at": {"event": "open", "path": "agon-s1/metrics.jsonl", "number": 2}, "do": "short", "bytes": 30}
    ended = _start(starter, out, cell=short).wait()
    assert ended.code == 1, ended.told
    assert "agon: cell agon-s1: cannot write" in ended.stderr
    _require_whole(starter, out, undisturbed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_matrix_that_is_asked_to_end_waits_for_its_cells_to_save(starter, out, undisturbed, number):
    ablation = _start(starter, out)
    wait_until(lambda: any(out.glob("cells/*/metrics.jsonl")) or ablation.is_over, "a cell trains")
    ablation.send(number)
    ended = ablation.wait()
    assert ended.code == 130, ended.told
    assert "continue with --resume" in ended.reason
    require_no_orphans(out.parent)
    _require_whole(starter, out, undisturbed)


def test_a_second_interrupt_ends_a_matrix_and_its_cells_at_once(starter, out, undisturbed):
    """Its cells hang, and would not end by themselves."""
    hang = {"at": {"call": "agon.rollout.batching:advance", "number": 60}, "do": "pause"}
    ablation = _start(starter, out, "--parallel", "1", cell=hang | {"reached": str(out.parent / "hangs")})
    wait_until(lambda: (out.parent / "hangs").exists() or ablation.is_over, "a cell hangs")
    ablation.send(signal.SIGINT)
    wait_until(lambda: "finishing the step" in "".join(p.read_text() for p in out.glob("recipes/*.log")), "it heard")
    ablation.send(signal.SIGINT)
    ended = ablation.wait()
    assert ended.code == 130, ended.told
    require_no_orphans(out.parent)
    _require_whole(starter, out, undisturbed)


INDEX, OF_BASE, OF_CELL = "matrix.json", "base/evaluations/*.json", f"cells/agon-s1/{EVALUATION}"
RESUME, REPORT, COMPARE = (*WORDS, "--resume"), ("report", "matrix"), ("compare", "matrix", "--json")
DAMAGED = [
    *((RESUME, pattern, kind) for pattern, kind in ((INDEX, "cut"), (OF_BASE, "flipped"), (OF_CELL, "emptied"))),
    *(
        (words, pattern, kind)
        for words in (REPORT, COMPARE)
        for pattern in (INDEX, OF_BASE, OF_CELL)
        for kind in ("emptied", "cut", "flipped")
    ),
]


@pytest.mark.parametrize(
    ("words", "pattern", "kind"), DAMAGED, ids=lambda value: value if isinstance(value, str) else value[0]
)
def test_a_damaged_file_of_a_matrix_is_told_or_made_again(starter, out, undisturbed, words, pattern, kind):
    shutil.copytree(undisturbed, out)
    file = min(out.glob(pattern))
    damage(file, kind, pattern)
    ended = starter.run(*words, cwd=out.parent)
    assert "Traceback" not in ended.told
    if ended.code == 0:
        assert words[0] == "ablate", "a damaged file was taken for a whole one"
        _require_whole(starter, out, undisturbed)
        path = file.relative_to(out)
        assert path.name == "matrix.json" or _result(file) == _result(undisturbed / path)
    else:
        assert file.name in ended.reason


def test_a_quickstart_that_is_killed_goes_on_to_the_same_bytes(starter, place):
    words = ("train", *TINY_WORDS)
    assert starter.run(*words, "--out", "undisturbed", cwd=place).code == 0
    quickstart = starter.start(*words, "--out", "both", cwd=place)
    wait_until(lambda: any(place.glob("both/*/metrics.jsonl")) or quickstart.is_over, "a run trains")
    quickstart.send(signal.SIGKILL)
    quickstart.wait()
    require_no_orphans(place)
    resumed = starter.run(*words, "--resume", "--out", "both", cwd=place)
    assert resumed.code == 0, resumed.told
    for run in ("grpo", "grpo-doubled-cap", "cooperative", "agon"):
        own, other = content(place / "both" / run), content(place / "undisturbed" / run)
        assert own == other, [name for name in other if own.get(name) != other[name]]
    assert not leftovers(place / "both")
