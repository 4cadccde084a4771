"""A checkpoint opened for serving: the same pair, prompts and summaries as in a session, behind an engine that is driven step by step."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch

from agon.config import Settings
from agon.errors import ModelError
from agon.match.serving import open_serving_session
from agon.match.session import fit_problems, open_base_session, open_session
from agon.model.checkpoint import save_checkpoint
from agon.records import Completion, Problem, Request
from agon.tasks.typed import typed_problem


@pytest.fixture(scope="module")
def settings():
    return Settings.model_validate(
        {
            "model": {"base": "quickstart"},
            "adapter": {"rank": 4, "alpha": 8.0},
            "task": {"name": "countdown-lite", "answer_style": "tags", "wording": "symbols-v1"},
            "rollout": {"max_draft_tokens": 40, "max_challenge_tokens": 40, "max_summary_tokens": 20},
        }
    )


def test_a_checkpoint_is_served_as_a_session_samples_it(settings, tmp_path):
    problem, _ = typed_problem(settings.task, "12 7 5 = 24", None)
    with open_session(settings) as session:
        assert session.pair is not None
        with torch.no_grad():
            for name in session.pair.names:
                for number, matrix in enumerate(session.pair.parameters(name)):
                    matrix.normal_(std=0.05, generator=torch.Generator().manual_seed(number))
        session.pair.count_step("B")
        save_checkpoint(tmp_path, session.pair, optimizers={}, progress={})
        requests = [Request(session.prompts.draft(problem).token_ids, name, 40, 3) for name in ("A", "B", None)]
        wanted = session.engine.generate(requests)
        summaries = [session.summarizer.summarize(problem, one, max_tokens=20) for one in wanted]
        challenge = session.prompts.challenge(problem, summaries[:1])
        fitting = fit_problems(session, [problem], settings.rollout, max_prompt_tokens=30)
    served = open_serving_session(settings, tmp_path)
    with closing(served.verifiers), closing(served.engine):
        assert served.prompts.challenge(problem, summaries[:1]) == challenge
        keys = [served.engine.add(request) for request in requests]
        found = {}
        while served.engine.num_open:
            found |= {one.key: one.completion for one in served.engine.step() if one.completion is not None}
        completions = [found[key] for key in keys]
        assert [(one.token_ids, one.text) for one in completions] == [(one.token_ids, one.text) for one in wanted]
        assert [one.adapter_version for one in completions] == [0, 1, 0]
        assert [served.summarizer.summarize(problem, one, max_tokens=20) for one in completions] == summaries
        assert fit_problems(served, [problem], settings.rollout, max_prompt_tokens=30) == fitting == ((problem,), ())
        served.engine.add(requests[0])
    assert served.engine.num_open == 0


@pytest.mark.parametrize(
    ("withholding", "shown"), [("mark", "Six sevens.\n\nThe answer is [withheld]."), ("drop", "Six sevens.")]
)
def test_every_session_withholds_answers_as_the_settings_say(settings, tmp_path, withholding, shown):
    task = settings.task.model_copy(update={"withholding": withholding})
    settings = settings.model_copy(update={"task": task})
    problem = Problem(id="p", question="What is 6 times 7?", gold="42", task="custom", verifier="math")
    said = Completion((), (), "Six sevens.\n\nThe answer is <answer>42</answer>.", "stop", "A", 0)
    with open_session(settings) as session, open_base_session(settings) as base:
        assert session.pair is not None
        save_checkpoint(tmp_path, session.pair, optimizers={}, progress={})
        summarizers = [session.summarizer, base.summarizer]
    served = open_serving_session(settings, tmp_path)
    with closing(served.verifiers), closing(served.engine):
        summarizers.append(served.summarizer)
    assert [one.summarize(problem, said, max_tokens=500).text for one in summarizers] == [shown] * 3


def test_a_folder_without_a_checkpoint_is_refused(settings, tmp_path):
    with pytest.raises(ModelError, match=str(tmp_path)):
        open_serving_session(settings, tmp_path)
