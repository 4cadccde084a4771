"""`agon eval RUN --microscope`: the pair itself, not a protocol."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.cli.common import print_json
from agon.errors import ConfigError

# What chooses one protocol, or other data: the pair is examined in all it was trained for, on its own task.
_OF_A_PROTOCOL = ("task", "protocol", "adapter", "drafts", "layers", "doubt", "threshold", "label")


def examine_pair(options: Namespace) -> int:
    """Examine a run's pair, write `microscope.json` into the run folder and print it.

    Raises:
        ConfigError: an option that chooses a protocol was given too.
        RunError: the subject is no run folder.
    """
    from agon.cli.progress import EvaluationProgress
    from agon.evaluation.load import open_run
    from agon.evaluation.microscope import check_pair, examine, write_microscope
    from agon.runs.parent import default_run
    from agon.runs.space import require_writable

    given = [f"--{name}" for name in _OF_A_PROTOCOL if getattr(options, name) is not None]
    if options.direction != "dev":
        given.append("--direction")
    if given:
        raise ConfigError(
            f"{given[0]} does not go with --microscope, which looks at both adapters on the run's own task"
        )
    samples = 2 if options.samples is None else options.samples
    run = default_run(Path(options.subject))
    require_writable(run)
    opened = open_run(
        run,
        tuple(options.set),
        step=options.checkpoint,
        check=lambda settings, _: check_pair(settings, samples=samples),
    )
    with opened.session, EvaluationProgress() as progress:
        found = examine(opened, split=options.split, samples=samples, progress=progress.update)
    write_microscope(run, found)
    if options.json:
        print_json(found.to_json())
    else:
        print("\n".join(lines_of(found.to_json())))
    return 0


def lines_of(found: Mapping[str, Any]) -> list[str]:
    """Return an examination as lines for people; docs/statistics.md says what each number means."""
    lines = [
        f"{found['task']} {found['split']}, the pair of {found['method']}: n={found['n']}, samples={found['samples']}, "
        f"evaluation seed {found['seed']}, 95% intervals over problems"
    ]
    for direction, rates in found["exchange"].items():
        lines.append(
            f"  {direction}: wrong->right {_rate(rates['conversion'])}, without reading {_rate(rates['blind_conversion'])}; "
            f"right->wrong {_rate(rates['regression'])}, without reading {_rate(rates['blind_regression'])}; "
            f"copies {_rate(rates['copy'])}; leaks {_rate(rates['leak'])}"
        )
    lines += _of_singles(found["singles"])
    lines += [
        f"  on {row['text']}'s {row['num_tokens']} tokens, {row['first']} and {row['second']}: KL {row['kl']:.4f} and back "
        f"{row['kl_reverse']:.4f}, JS {row['js']:.4f} nats a token, top-1 agreement {row['top1_agreement']:.3f}"
        for row in found["policies"]
    ]
    lines += _of_updates(found["updates"])
    lines += [f"  ALARM {alarm['name']} ({alarm['about']}): {alarm['message']}" for alarm in found["alarms"]]
    return [*lines, *(f"  {note}" for note in found["notes"])]


def _of_singles(singles: Mapping[str, Any]) -> list[str]:
    strength, union = singles["strength"], singles["union"]
    lines: list[str] = []
    for name, single in singles["players"].items():
        lines.append(
            f"  {name} alone: pass@1 {single['accuracy']:.3f} {_interval(single['interval'])}, pass@2 {single['pass_at_2']:.3f}, "
            f"{single['tokens']:.1f} tokens"
        )
    seen = strength["min_detectable"]
    difference = strength["difference"]
    lines.append(
        f"  B less A: {difference['difference']:+.3f} {_interval(difference['interval'])}; "
        + ("no difference could be seen" if seen is None else f"one of {seen:.3f} would be seen with power .8")
    )
    for name, overlap in singles["overlap"].items():
        values = ", ".join(
            f"{label} {_value(overlap['measures'][key])} {_interval(overlap['intervals'][key])}"
            for key, label in (
                ("q", "Q"),
                ("rho", "rho"),
                ("error_jaccard", "Jaccard of errors"),
                ("double_fault", "both wrong"),
            )
        )
        lines.append(f"  {name}: {values}")
    for key, null in (("gain", "the mean pass@2"), ("gain_over_stronger", "the stronger's pass@2")):
        lines.append(
            f"  union {union['union']:.3f}: {union[key]['gain']:+.3f} {_interval(union[key]['interval'])} on {null}"
        )
    return lines


def _of_updates(updates: Mapping[str, Any]) -> list[str]:
    lines = [
        f"  updates: norms {updates['norm_first']:.3f} and {updates['norm_second']:.3f}, distance {updates['distance']:.3f}, "
        f"cosine {_value(updates['cosine'])}"
    ]
    for side in ("outputs", "inputs"):
        spans = updates[side]
        if spans is not None:
            lines.append(
                f"  subspaces of {side}: overlap {spans['overlap']:.3f} ({spans['random_overlap']:.3f} by chance), angles "
                f"{spans['smallest']:.0f} to {spans['largest']:.0f} degrees, median {spans['median']:.0f}"
            )
    return lines


def _rate(rate: Mapping[str, Any] | None) -> str:
    return "-" if rate is None else f"{rate['rate']:.3f} {_interval(rate['interval'])} of {rate['n']}"


def _interval(interval: Mapping[str, Any] | None) -> str:
    return "[-]" if interval is None else f"[{interval['low']:.3f}, {interval['high']:.3f}]"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
