from __future__ import annotations

import pytest

from agon.errors import EngineError
from agon.records import Request
from agon.rollout import vllm_server
from agon.rollout.vllm_loop import Job, run, score_prompt


def _job(index, cap, prompt=(3, 4, 5)):
    return Job(index, Request(prompt, None, cap, seed=index), None)


def test_jobs_that_join_are_held_back_until_they_are_worth_a_step(make_server):
    server = make_server(max_rows=64)
    steps, joined_at = [], []
    own_add, own_step = server.add, server.step

    def add(request, route=None, **options):
        if request.seed >= 100:
            joined_at.append(len(steps))
        return own_add(request, route, **options)

    def step():
        steps.append(1)
        return own_step()

    server.add, server.step = add, step
    # 40 long requests run while 4 short ones end in steps of their own; each end lets one join.
    jobs = [_job(i, 30, (3 + i % 40, 7)) for i in range(40)] + [_job(40 + i, 2 + 3 * i) for i in range(4)]
    ended = []

    def end(sampled):
        ended.append(sampled.job.index)
        return [_job(100 + sampled.job.index, 1)] if 40 <= sampled.job.index < 44 else []

    run(server, jobs, end)
    assert len(ended) == 48
    # One for every 16 that run: with some 42 running, three of the four wait for each other.
    assert joined_at[0] == joined_at[1] == joined_at[2] < joined_at[3]
    assert not server._engine.has_requests()


def _count_steps(server):
    """Count the engine's steps that read no prompt, and those that read one beside others that run."""
    counts = {"plain": 0, "mixed": 0}
    execute = server._engine._execute

    def counting():
        running = server._engine._running
        joining = len(server._engine._waiting) if len(running) < server.options.max_rows else 0
        counts["mixed" if joining and running else "plain"] += 1
        return execute()

    server._engine._execute = counting
    return counts


def test_more_jobs_than_rows_join_in_groups_and_not_one_by_one(make_server):
    server = make_server(max_rows=32)
    counts = _count_steps(server)
    ended = []
    run(server, [_job(i, 10 + i * 7 % 23, (3 + i % 40, 7)) for i in range(160)], lambda one: ended.append(one) or [])
    assert sorted(one.job.index for one in ended) == list(range(160))
    assert all(len(one.token_ids) == one.job.request.max_tokens or one.stop_reason == "stop" for one in ended)
    assert server._engine.most_running == 32
    # 128 of them join later. One for every 16: beside 31 that run one is too few, so that two join or more, at most 64 times.
    assert 0 < counts["mixed"] <= 64
    # One by one as rows end, it would be every step at which some end. There is no third kind of step.
    assert counts["plain"] > 40


def test_the_last_of_the_first_jobs_do_not_wait_for_company(make_server):
    server = make_server(max_rows=32)
    added_at, steps = [], []
    own_add, own_step = server.add, server.step
    server.add = lambda *args, **options: added_at.append(len(steps)) or own_add(*args, **options)
    server.step = lambda: steps.append(1) or own_step()
    # 31 long ones and a short one; one more waits for its row, and no other will come for it to join.
    run(server, [_job(i, 30, (3 + i, 7)) for i in range(31)] + [_job(31, 3), _job(32, 3)], lambda sampled: [])
    assert added_at[:32] == [0] * 32
    assert added_at[32] < 8


def test_a_prompt_is_scored_anew_each_time(make_server, make_base):
    server = make_server()
    prompt = (3, 9, 4, 17, 8)
    first = score_prompt(server, prompt, None)
    assert len(first) == 4
    weights = server.model.get_parameter("model.layers.0.mlp.down_proj.weight")
    weights.data.mul_(3.0)
    assert score_prompt(server, prompt, None) != pytest.approx(first, abs=1e-3)


def test_an_engine_that_gives_nothing_is_not_waited_for_for_ever(make_server, monkeypatch):
    server = make_server()
    monkeypatch.setattr(vllm_server, "_MAX_IDLE_STEPS", 5)
    monkeypatch.setattr(server._engine, "_execute", list)
    with pytest.raises(EngineError, match="5 steps without a token"):
        run(server, [_job(0, 4)], lambda sampled: [])


def test_one_request_of_sixteen_that_never_gets_a_token_ends_the_step_and_is_named(make_server, monkeypatch):
    server = make_server(max_rows=16)
    monkeypatch.setattr(vllm_server, "_MAX_IDLE_STEPS", 20)
    execute = server._engine._execute
    monkeypatch.setattr(server._engine, "_execute", lambda: [one for one in execute() if one.request_id != "7"])
    ended = []

    def end(sampled):
        ended.append(sampled.job.index)
        return []

    # It is never told of, so that the engine's own row of it goes on until its cap and is then forgotten.
    with pytest.raises(
        EngineError, match=r"20 steps without a token.*; unfinished: request 7 at 0 of 4 tokens after a prompt of 3$"
    ):
        run(server, [_job(index, 4) for index in range(16)], end)
    assert sorted(ended) == [index for index in range(16) if index != 7]
    run(server, [_job(0, 2)], end)
    assert ended[-1] == 0


def test_a_request_that_the_engine_gives_up_is_an_error(make_server, monkeypatch):
    server = make_server()
    advance = server._engine._advance

    def fail(row):
        output = advance(row)
        output.finish_reason = "error"
        return output

    monkeypatch.setattr(server._engine, "_advance", fail)
    with pytest.raises(EngineError, match="ended request 0 with 'error'"):
        run(server, [_job(0, 1)], lambda sampled: [])


def test_prefixes_that_are_kept_while_weights_change_are_an_error(make_server, monkeypatch):
    server = make_server()
    monkeypatch.setattr(server._engine, "reset_prefix_cache", lambda: False)
    with pytest.raises(EngineError, match="kept its prefix cache"):
        server.forget_prefixes()
