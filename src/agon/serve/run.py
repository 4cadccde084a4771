"""A trained run as a service: its pair in an engine of this process."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from agon.config import Settings
from agon.errors import ConfigError
from agon.evaluation.load import Served, open_run_to_serve, prompts_of, sampling_for
from agon.methods.registry import method_named
from agon.records import Direction
from agon.rollout.text import TextReader
from agon.runs.evaluations import read_evaluations
from agon.serve.access import Access
from agon.serve.engine import EngineBackend
from agon.serve.models import Offer, Vocabulary, chosen_direction, run_models
from agon.serve.service import OpenedService, open_service
from agon.serve.text import TextStream
from agon.tasks.data import TaskData

# More rows at once make each of them slower on a CPU.
_MOST_ON_CPU = 64


@contextmanager
def open_run_service(
    path: Path,
    access: Access,
    *,
    overrides: tuple[str, ...] = (),
    step: int | None = None,
    direction: Direction | None = None,
) -> Generator[OpenedService]:
    """Open a run folder for serving. `direction` None takes the one that its evaluations chose on development problems, else a-b.

    Raises:
        ConfigError: a direction was asked of a run that trained one adapter.
        RunError: no run folder, or no checkpoint that can be used.
    """
    evaluations = read_evaluations(path)
    served = open_run_to_serve(path, overrides, step=step, check=partial(_check_direction, direction))
    session = served.session
    prompts = prompts_of(served.settings.task)
    chosen = direction or chosen_direction(evaluations, task=served.task.name, prompts=prompts)
    offer = offer_of(served, path.resolve().name, chosen or "a-b")
    backend = EngineBackend(session.engine, TextReader(session.tokenizer))
    with open_service(offer, backend, session.verifiers, access=access, max_running=_most_running(served)) as service:
        has_pair = method_named(served.settings.train.method).has_pair
        note = _direction_note(direction, chosen) if has_pair else ()
        yield OpenedService(service, (*served.notes, *note))


def offer_of(served: Served, name: str, direction: Direction) -> Offer:
    """Return what a run offers."""
    session, settings, task = served.session, served.settings, served.task
    method = method_named(settings.train.method)
    base, reader = session.pair.base, TextReader(session.tokenizer)
    return Offer(
        name=name,
        models=run_models(method, direction),
        sampling=sampling_for(settings),
        prompts=session.prompts,
        summarizer=session.summarizer,
        style=session.style,
        task=settings.task,
        vocabulary=Vocabulary(
            encode=lambda text: session.tokenizer(text)["input_ids"],
            decode=lambda ids: session.tokenizer.decode(list(ids)),
            size=base.model.config.get_text_config().vocab_size,
            open_text=lambda: TextStream(reader),
            stop_ids=frozenset(base.stop_ids),
        ),
        method=settings.train.method,
        problems=task.test or task.dev or task.train,
    )


def _check_direction(direction: Direction | None, settings: Settings, task: TaskData) -> None:
    if direction is not None and not method_named(settings.train.method).has_pair:
        raise ConfigError(f"--direction {direction} was asked for, but this run trained one adapter: leave it out")


def _most_running(served: Served) -> int:
    rows = served.settings.rollout.max_rows
    return min(rows, _MOST_ON_CPU) if served.session.pair.base.device.type == "cpu" else rows


def _direction_note(asked: Direction | None, chosen: Direction | None) -> tuple[str, ...]:
    if asked is not None:
        return ()
    if chosen is not None:
        return (f"direction {chosen}, which the run's evaluations chose on development problems",)
    return (
        "direction a-b, since no evaluation of the run chose one on development problems: --direction sets another",
    )
