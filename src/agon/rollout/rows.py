"""What the engine knows about each row while it is decoded: its request, its random numbers, its tokens so far."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Ended:
    """A row that has ended: the index of its request, and what was sampled for it."""

    index: int
    token_ids: list[int]
    logprobs: list[float]
    stop_reason: StopReason


class Rows:
    """The rows being decoded, in the decoder's order.

    Each owns a *seat* from joining to ending, where its data stay when rows move. Device tensors are looked up by seat and
    step: nothing is sent to the device between two changes of the rows, and one copy a step comes back.
    """

    def __init__(
        self, requests: Sequence[Request], *, max_rows: int, is_stop: NDArray[np.bool_], device: torch.device
    ) -> None:
        longest = max(request.max_tokens for request in requests)
        real = torch.float32 if device.type == "mps" else torch.float64
        self._requests = requests
        self._is_stop = is_stop
        self._device = device
        self._free = list(range(max_rows))[::-1]
        # By seat.
        self._index = np.zeros(max_rows, dtype=np.int64)
        self._count = np.zeros(max_rows, dtype=np.int64)
        self._cap = np.zeros(max_rows, dtype=np.int64)
        self._offset = np.zeros(max_rows, dtype=np.int64)
        self._temperature = np.ones(max_rows)
        self._top_p = np.ones(max_rows)
        self._tokens = np.zeros((max_rows, longest), dtype=np.int32)
        self._logprobs = np.zeros((max_rows, longest), dtype=np.float32)
        self._uniforms = torch.zeros(max_rows, longest, dtype=real, device=device)
        # By row.
        self._seats = np.zeros(0, dtype=np.int64)
        self._is_running = np.zeros(0, dtype=np.bool_)
        self._newest = torch.zeros(0, dtype=torch.long, device=device)
        self._upload()

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def num_running(self) -> int:
        """Rows that have not ended."""
        return int(self._is_running.sum())

    @property
    def num_free(self) -> int:
        """Rows that could join."""
        return len(self._free)

    @property
    def newest(self) -> Int[Tensor, " rows"]:
        """The newest token of each row."""
        return self._newest

    @property
    def positions(self) -> Int[Tensor, " rows"]:
        """The position of the newest token of each row."""
        return self._steps + self._offsets

    def join(self, indexes: Sequence[int]) -> None:
        """Add a row for each of these requests at the end. A request's seed alone decides its numbers."""
        seats = np.array([self._free.pop() for _ in indexes], dtype=np.int64)
        numbers = np.zeros((len(indexes), self._uniforms.shape[1]))
        for i, (seat, index) in enumerate(zip(seats, indexes, strict=True)):
            request = self._requests[index]
            self._index[seat], self._count[seat] = index, 0
            self._cap[seat], self._offset[seat] = request.max_tokens, len(request.prompt_ids) - 1
            self._temperature[seat], self._top_p[seat] = request.temperature, request.top_p
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
            index = int(self._index[seats[np.nonzero(~np.isfinite(logprobs))[0][0]]])
            raise DivergedError(
                f"request {index} (adapter {self._requests[index].adapter or 'none'}) got logits that are not finite: "
                "the weights are damaged or have diverged; go back to an earlier checkpoint"
            )
        step = self._count[seats]
        self._tokens[seats, step] = tokens
        self._logprobs[seats, step] = logprobs
        self._count[seats] = step + 1
        has_stopped = self._is_stop[tokens]
        ending = np.nonzero(has_stopped | (step + 1 >= self._cap[seats]))[0]
        self._is_running[first + running[ending]] = False
        return [self._end(int(seats[i]), bool(has_stopped[i])) for i in ending]

    def _end(self, seat: int, has_stopped: bool) -> Ended:
        count = int(self._count[seat])
        self._free.append(seat)
        return Ended(
            int(self._index[seat]),
            self._tokens[seat, :count].tolist(),
            self._logprobs[seat, :count].tolist(),
            "stop" if has_stopped else "length",
        )

    def _upload(self) -> None:
        """Send the device what it must know of the rows as they stand."""
        seats = self._seats
        whole = np.stack([seats, self._count[seats], self._cap[seats] - 1, self._offset[seats]])
        real = np.stack([self._temperature[seats], self._top_p[seats]])
        there = torch.from_numpy(whole).to(self._device)
        self._seats_there, self._steps, self._last_steps, self._offsets = there.unbind(0)
        self._temperatures, self._top_ps = torch.from_numpy(real).to(self._device, torch.float32).unbind(0)
        self._mix = Mix(
            has_temperature=bool((real[0] != 1).any()),
            has_greedy=bool((real[0] == 0).any()),
            has_nucleus=bool((real[1] < 1).any()),
        )
