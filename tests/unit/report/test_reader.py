import json
import random
from dataclasses import replace

import pytest

from agon.report import reader
from agon.report.collect import collect
from agon.report.reader import MAX_CHARACTERS, fill_shelf, fill_shelves, shorten


@pytest.fixture
def matches(fake):
    rng = random.Random(0)
    return [fake.match(rng, number) for number in range(30)]


def test_a_shelf_keeps_the_first_matches_and_counts_all(matches):
    shelf = fill_shelf("agon", "evaluation", iter(matches), max_matches=8, max_bytes=10**6)
    assert [entry["id"] for entry in shelf.matches] == [match.problem.id for match in matches[:8]]
    assert shelf.counts.total == 30
    assert shelf.is_cut
    assert shelf.to_json()["total"] == 30


def test_a_shelf_stays_within_its_bytes(matches):
    shelf = fill_shelf("agon", "evaluation", matches, max_matches=30, max_bytes=6000)
    assert 1 < len(shelf.matches) < 30
    assert (
        shelf.num_bytes == sum(len(json.dumps(entry, ensure_ascii=False).encode()) for entry in shelf.matches) <= 6000
    )


def test_a_match_is_shown_with_what_each_stage_said_and_was_worth(matches):
    match = next(match for match in matches if match.challenge.is_correct and match.draft.verdict.outcome == "wrong")
    (entry,) = fill_shelf("agon", "evaluation", [match], max_matches=1, max_bytes=10**6).matches
    assert entry["cell"] == "wrong-right"
    assert entry["drafts"][0]["text"] == match.draft.completion.text
    assert entry["drafts"][0]["answer"] == "7 * 2 - 3"
    assert entry["drafts"][0]["reason"] == "the value is 11, not 14"
    assert entry["drafts"][0]["tokens"] == match.draft.completion.num_tokens
    assert entry["summaries"][0]["text"] == match.summaries[0].text
    assert (entry["challenge"]["outcome"], entry["challenge"]["adapter"]) == ("correct", "B")


def test_the_base_is_named_where_no_adapter_played(matches):
    match = replace(matches[0], drafts=(replace(matches[0].draft, adapter=None),), challenge=None)
    shelf = fill_shelf("zero-shot", "evaluation", [match], max_matches=1, max_bytes=10**6)
    assert shelf.matches[0]["drafts"][0]["adapter"] == "base"
    assert shelf.prompts == {"drafter": match.draft.prompt.text}


def test_a_long_text_loses_its_middle_and_says_how_much():
    text = "a" * MAX_CHARACTERS + "b" * 1234
    short = shorten(text)
    assert short.startswith("aaa")
    assert short.endswith("bbb")
    assert "[… 1,234 characters left out of this page …]" in short
    assert shorten("a" * MAX_CHARACTERS) == "a" * MAX_CHARACTERS


def test_all_shelves_together_stay_within_the_page_and_small_ones_leave_their_room(parent, monkeypatch):
    everything = fill_shelves(collect([parent]))
    assert not any(shelf.is_cut for shelf in everything.all)
    whole = sum(shelf.num_bytes for shelf in everything.all)
    monkeypatch.setattr(reader, "MAX_BYTES", whole // 2)
    shelves = fill_shelves(collect([parent]))
    assert whole * 0.4 < sum(shelf.num_bytes for shelf in shelves.all) <= whole // 2
    assert all(shelf.matches for shelf in shelves.all)
    assert [shelf.counts for shelf in shelves.all] == [shelf.counts for shelf in everything.all]
