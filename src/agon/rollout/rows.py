"""What an engine knows about each row while it is decoded: its request, its random numbers, its tokens so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from agon.errors import DivergedError
from agon.records import Request, StopReason
from agon.rollout.sampling import Mix, sample_tokens
from agon.seeding import numpy_rng

Keyed = tuple[int, Request]
"""A request and the number by which the rows know it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A row that has ended: its request with the key, and what was sampled for it."""

    key: int
    request: Request
    token_ids: list[int]
    logprobs: list[float]
    stop_reason: StopReason


@dataclass(frozen=True, slots=True)
class Latest:
    """The last tokens sampled, one for each row that was running; the keys are those of their requests. Units: nats."""

    keys: list[int]
    tokens: list[int]
    logprobs: list[float]


class Rows:
    """The rows being decoded, in the decoder's order.

    Each owns a *seat* from joining to ending, where its data stay when rows move. Device tensors are looked up by seat and
    step: nothing is sent to the device between two changes of the rows, and one copy a step comes back. `room` seats with `longest`
    tokens each are made at once; more and longer ones as they are needed.
    """

    def __init__(self, *, room: int, longest: int, is_stop: NDArray[np.bool_], device: torch.device) -> None:
        real = torch.float32 if device.type == "mps" else torch.float64
        self._is_stop = is_stop
        self._device = device
        self._requests: dict[int, Request] = {}
        # By seat.
        self._free: list[int] = []
        self._keys = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros((3, 0), dtype=np.int64)  # tokens so far, the last step, the prompt's last position
        self._knobs = np.zeros((2, 0))  # temperature, top_p
        self._tokens = np.zeros((0, 0), dtype=np.int32)
        self._logprobs = np.zeros((0, 0), dtype=np.float32)
        self._uniforms = torch.zeros(0, 0, dtype=real, device=device)
        self._make_room(room, longest)
        # By row.
        self._seats = np.zeros(0, dtype=np.int64)
        self._is_running = np.zeros(0, dtype=np.bool_)
        self._newest = torch.zeros(0, dtype=torch.long, device=device)
        self._latest = (self._seats, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
        self._upload()

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def num_running(self) -> int:
        """Rows that have not ended."""
        return int(self._is_running.sum())

    @property
    def newest(self) -> Int[Tensor, " rows"]:
        """The newest token of each row."""
        return self._newest

    @property
    def positions(self) -> Int[Tensor, " rows"]:
        """The position of the newest token of each row."""
        return self._steps + self._offsets

    def join(self, requests: Sequence[Keyed]) -> None:
        """Add a row for each of these requests at the end. A request's seed alone decides its numbers."""
        self._make_room(len(self._keys) - len(self._free) + len(requests), max(one.max_tokens for _, one in requests))
        seats = np.array([self._free.pop() for _ in requests], dtype=np.int64)
        numbers = np.zeros((len(requests), self._uniforms.shape[1]))
        for i, (seat, (key, request)) in enumerate(zip(seats, requests, strict=True)):
            self._requests[key], self._keys[seat] = request, key
            self._counts[:, seat] = 0, request.max_tokens - 1, len(request.prompt_ids) - 1
            self._knobs[:, seat] = request.temperature, request.top_p
            numbers[i, : request.max_tokens] = numpy_rng(request.seed, "tokens").random(request.max_tokens)
        where = torch.from_numpy(seats).to(self._device)
        self._uniforms[where] = torch.from_numpy(numbers).to(self._device, self._uniforms.dtype)
        self._seats = np.concatenate([self._seats, seats])
        self._is_running = np.concatenate([self._is_running, np.ones(len(seats), dtype=np.bool_)])
        self._newest = torch.cat([self._newest, self._newest.new_zeros(len(seats))])
        self._upload()

    def advance(self, logits: Float[Tensor, "rows vocab"], first: int = 0) -> list[Ended]:
        """Sample the next token of the rows from `first` on, and return those that end with it.

        Raises:
            DivergedError: the model gave logits that are not finite.
        """
        seats, steps = self._seats_there[first:], self._steps[first:]
        tokens, logprobs = sample_tokens(
            logits, self._uniforms[seats, steps], self._temperatures[first:], self._top_ps[first:], self._mix
        )
        self._newest = torch.cat([self._newest[:first], tokens]) if first else tokens
        self._steps[first:] = torch.minimum(steps + 1, self._last_steps[first:])
        both = torch.stack((tokens.to(torch.int32), logprobs.view(torch.int32))).cpu().numpy()
        return self._record(both[0], both[1].view(np.float32), first)

    def latest(self) -> Latest:
        """Return what the last `advance` has sampled."""
        keys, tokens, logprobs = self._latest
        return Latest(keys.tolist(), tokens.tolist(), logprobs.tolist())

    def drop(self, keys: Collection[int]) -> None:
        """Let the rows of these requests end without an answer; keys of others are passed over."""
        there = self._is_running & np.isin(self._keys[self._seats], list(keys))
        for seat in self._seats[there].tolist():
            self._free.append(seat)
            del self._requests[int(self._keys[seat])]
        self._is_running &= ~there

    def leave(self) -> list[int]:
        """Drop the rows that have ended; row i then is what row `result[i]` was."""
        ended, running = np.nonzero(~self._is_running)[0], np.nonzero(self._is_running)[0]
        num_left = len(running)
        rows = np.arange(num_left)
        # The last rows fill the holes, so that few move.
        holes = ended[ended < num_left]
        rows[holes] = running[num_left - len(holes) :]
        self._seats = self._seats[rows]
        self._is_running = self._is_running[rows]
        self._newest = self._newest[torch.from_numpy(rows).to(self._device)]
        self._upload()
        return rows.tolist()

    def _record(self, tokens: NDArray[np.int32], logprobs: NDArray[np.float32], first: int) -> list[Ended]:
        running = np.nonzero(self._is_running[first:])[0]
        seats, tokens, logprobs = self._seats[first:][running], tokens[running], logprobs[running]
        if not np.isfinite(logprobs).all():
            key = int(self._keys[seats[np.nonzero(~np.isfinite(logprobs))[0][0]]])
            raise DivergedError(
                f"request {key} (adapter {self._requests[key].adapter or 'none'}) got logits that are not finite: "
                "the weights are damaged or have diverged; train with a lower train.learning_rate, or go back to an earlier "
                "checkpoint if one was saved"
            )
        self._latest = (self._keys[seats], tokens, logprobs)
        steps = self._counts[0, seats]
        self._tokens[seats, steps] = tokens
        self._logprobs[seats, steps] = logprobs
        self._counts[0, seats] = steps + 1
        has_stopped = self._is_stop[tokens]
        ending = np.nonzero(has_stopped | (steps >= self._counts[1, seats]))[0]
        self._is_running[first + running[ending]] = False
        return [self._end(int(seats[i]), bool(has_stopped[i])) for i in ending]

    def _end(self, seat: int, has_stopped: bool) -> Ended:
        count, key = int(self._counts[0, seat]), int(self._keys[seat])
        self._free.append(seat)
        return Ended(
            key,
            self._requests.pop(key),
            self._tokens[seat, :count].tolist(),
            self._logprobs[seat, :count].tolist(),
            "stop" if has_stopped else "length",
        )

    def _make_room(self, num_seats: int, num_tokens: int) -> None:
        """Make sure that there are so many seats, each for so many tokens."""
        seats, tokens = self._tokens.shape
        # Doubled at least, so that growing costs little however slowly it goes.
        more = max(num_seats, 2 * seats) - seats if num_seats > seats else 0
        longer = max(num_tokens, 2 * tokens) - tokens if num_tokens > tokens else 0
        if not (more or longer):
            return
        self._free = [*range(seats + more - 1, seats - 1, -1), *self._free]
        self._keys = np.pad(self._keys, (0, more))
        self._counts = np.pad(self._counts, ((0, 0), (0, more)))
        self._knobs = np.pad(self._knobs, ((0, 0), (0, more)))
        self._tokens = np.pad(self._tokens, ((0, more), (0, longer)))
        self._logprobs = np.pad(self._logprobs, ((0, more), (0, longer)))
        self._uniforms = torch.nn.functional.pad(self._uniforms, (0, longer, 0, more))

    def _upload(self) -> None:
        """Send the device what it must know of the rows as they stand."""
        seats = self._seats
        real = self._knobs[:, seats]
        there = torch.from_numpy(np.vstack([seats, self._counts[:, seats]])).to(self._device)
        self._seats_there, self._steps, self._last_steps, self._offsets = there.unbind(0)
        self._temperatures, self._top_ps = torch.from_numpy(real).to(self._device, torch.float32).unbind(0)
        self._mix = Mix(
            has_temperature=bool((real[0] != 1).any()),
            has_greedy=bool((real[0] == 0).any()),
            has_nucleus=bool((real[1] < 1).any()),
        )
