"""A stepping engine without a model."""

from __future__ import annotations

import threading

from agon.records import Completion
from agon.rollout.checks import check_request
from agon.rollout.stepping import Progress
from agon.rollout.text import TextReader


class SteppedScript:
    """A stepping engine whose requests say a text, a token a character and a step; `gate` lets it step, if it is shut.

    `say` is a function of the request. It breaks where it is used from two threads.
    """

    context_length = 100

    def __init__(self, say, *, is_shut=False):
        self.say = say
        self.added, self.cancelled = [], []
        self.num_steps = 0
        self.is_closed = False
        self.failure = None
        self.gate = threading.Semaphore(0) if is_shut else None
        self._running = {}
        self._threads = set()

    @property
    def num_open(self):
        return len(self._running)

    def add(self, request):
        self._note_thread()
        check_request(request, self.context_length, index=len(self.added))
        key = len(self.added)
        self.added.append(request)
        text = self.say(request)
        ids = [*map(ord, text), 0][: request.max_tokens]
        self._running[key] = (request, ids, 0)
        return key

    def cancel(self, key):
        self._note_thread()
        self.cancelled.append(key)
        self._running.pop(key, None)

    def step(self):
        self._note_thread()
        if self.gate is not None:
            self.gate.acquire()
        if self.failure is not None:
            raise self.failure
        self.num_steps += 1
        told = []
        for key, (request, ids, given) in list(self._running.items()):
            is_last = given + 1 == len(ids)
            told.append(Progress(key, [ids[given]], [-0.25], self._completion(request, ids) if is_last else None))
            self._running[key] = (request, ids, given + 1)
            if is_last:
                del self._running[key]
        return told

    def close(self):
        self._note_thread()
        self.is_closed = True
        self._running.clear()

    def _completion(self, request, ids):
        has_stop = ids[-1] == 0
        text = "".join(map(chr, ids[:-1] if has_stop else ids))
        logprobs = (-0.25,) * len(ids)
        return Completion(tuple(ids), logprobs, text, "stop" if has_stop else "length", request.adapter, 7)

    def _note_thread(self):
        self._threads.add(threading.get_ident())
        assert len(self._threads) == 1, "one thread owns the engine"


class CharReader(TextReader):
    """Reads a character a token."""

    def __init__(self):
        super().__init__(None)

    def read(self, token_ids, *, has_stop):
        return "".join(map(chr, token_ids[:-1] if has_stop else token_ids))
