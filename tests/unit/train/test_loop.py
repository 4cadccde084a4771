from __future__ import annotations

import os
import signal

from agon.cli.common import settings_of
from agon.train import loop
from agon.train.run import Watcher, run_training

_TINY = ["train.steps=2", "train.problems_per_step=1", "train.group_size=2", "train.save_every=1", "task.max_train=4"]
_SHORT = ["adapter.rank=2", "rollout.max_draft_tokens=8", "rollout.max_challenge_tokens=8", "alarms.kl_every=0"]


def test_a_stop_that_is_asked_for_while_a_step_is_saved_ends_the_run_with_that_step(tmp_path, monkeypatch):
    whole = loop.save_state

    def asked_within(*arguments, **named):
        os.kill(os.getpid(), signal.SIGTERM)
        whole(*arguments, **named)

    monkeypatch.setattr(loop, "save_state", asked_within)
    settings = settings_of("quickstart-agon", [*_TINY, *_SHORT])
    trained = run_training(settings, tmp_path / "run", Watcher(say=lambda line: None, on_step=lambda step, row: None))
    assert (trained.completed_steps, trained.was_stopped) == (1, True)
