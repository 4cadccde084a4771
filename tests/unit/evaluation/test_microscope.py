from __future__ import annotations

import json

import pytest
import torch

from agon.cli.common import settings_of as read_settings
from agon.config import Settings
from agon.errors import ConfigError, DataError, RunError
from agon.evaluation.load import Opened, fit_task
from agon.evaluation.microscope import check_pair, examine, write_microscope
from agon.match.session import open_base_session, open_session
from agon.runs import read_json
from agon.tasks.loader import load_task


def settings_of(*overrides) -> Settings:
    return read_settings("quickstart-agon", ["evaluation.max_dev=12", "evaluation.max_test=5", *overrides])


@pytest.fixture(scope="module")
def opened():
    """The embedded base with a pair: A as it starts, B changed so much that it says something else."""
    settings = settings_of()
    session = open_session(settings)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for site in session.pair.sites:
            site.up("A").zero_()
            site.up("B").copy_(0.1 * torch.randn(site.up("B").shape, generator=generator))
    with session:
        yield Opened(session, fit_task(session, load_task(settings.task), settings), settings)


@pytest.fixture(scope="module")
def found(opened):
    return examine(opened, split="dev")


def test_it_says_what_was_examined(opened, found):
    assert (found.task, found.split, found.method, found.protocol) == ("countdown-lite", "dev", "agon", "cascade")
    assert (found.n, found.samples, found.seed, found.temperature) == (12, 2, 1234, 0.6)


def test_both_directions_are_counted_over_every_match(found):
    for rates in found.exchange.values():
        assert rates.conversion.n + rates.regression.n == 2 * 12
        assert rates.leak.n == 2 * 12


def test_an_adapter_that_is_the_base_is_found_out(found):
    own = {(row.text, row.first, row.second): row for row in found.policies}
    assert own["A", "A", "base"].kl == 0.0
    assert own["A", "A", "B"].kl == own["A", "B", "base"].kl_reverse > 0.001
    assert own["B", "A", "B"].kl == own["B", "B", "base"].kl_reverse > 0.001
    assert [(alarm.name, alarm.about) for alarm in found.alarms] == [("dead-adapter", "A")]
    assert (found.updates.norm_first, found.updates.cosine) == (0.0, None)
    # A's answers are the tokens that were compared.
    assert own["A", "A", "B"].num_tokens == pytest.approx(24 * found.singles.players["A"].tokens)


def test_the_two_directions_draw_from_streams_of_their_own(opened):
    # With B the same as A, common streams would give the same drafts in both directions, and a rho of 1.
    pair = opened.session.pair
    kept = [parameter.detach().clone() for parameter in pair.parameters("B")]
    with torch.no_grad():
        for mine, other in zip(pair.parameters("B"), pair.parameters("A"), strict=True):
            mine.copy_(other)
    try:
        twins = examine(opened, split="dev")
    finally:
        with torch.no_grad():
            for parameter, values in zip(pair.parameters("B"), kept, strict=True):
                parameter.copy_(values)
    assert twins.singles.overlap["A-B"].measures.disagreement > 0.0
    assert {row.kl for row in twins.policies} == {0.0}


def test_an_examination_repeats_itself_and_is_written_whole(opened, found, tmp_path):
    path = write_microscope(tmp_path, examine(opened, split="dev"))
    assert path.name == "microscope.json"
    written = read_json(path)
    assert written == json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert written["format_version"] == 1
    assert set(written) >= {"exchange", "singles", "policies", "updates", "alarms", "notes"}
    assert written["exchange"]["a-b"]["discernment"] == found.exchange["a-b"].discernment
    with pytest.raises(RunError, match="cannot write"):
        write_microscope(tmp_path / "gone", found)


def test_another_split_fewer_problems_and_more_samples_are_taken_as_asked(opened):
    told = []
    out = examine(opened, split="test", samples=3, max_problems=4, progress=lambda done, of: told.append((done, of)))
    assert (out.split, out.n, out.samples) == ("test", 4, 3)
    assert out.exchange["a-b"].leak.n == 12
    assert told[-1] == (8, 8)
    # 3 x 3 pairs of samples a problem between the two, 3 x 2 within one.
    overlap = {name: row.measures for name, row in out.singles.overlap.items()}
    assert {name: row.both + row.only_first + row.only_second + row.neither for name, row in overlap.items()} == {
        "A-B": 36,
        "A-A": 24,
        "B-B": 24,
    }


def test_what_has_no_pair_is_refused(opened):
    with pytest.raises(ConfigError, match=r"trained adapter A alone: there is no pair"):
        check_pair(settings_of("train.method=grpo"), samples=2)
    with pytest.raises(ConfigError, match=r"--samples is 1, but a pair is examined by pass@2: give 2 or more"):
        examine(opened, split="dev", samples=1)
    with pytest.raises(DataError, match="dev split"):
        examine(opened, split="dev", max_problems=0)
    with open_base_session(opened.settings) as session:
        bare = Opened(session, opened.task, opened.settings)
        with pytest.raises(ConfigError, match="a base model has no pair"):
            examine(bare, split="dev")
