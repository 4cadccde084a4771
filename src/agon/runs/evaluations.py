"""Results of evaluations in a run folder: one JSON file each, and the matches they were computed from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from agon.errors import RunError
from agon.records import Match
from agon.runs.atomic import input_errors, output_errors, refuse_link_outside, sha256_of
from agon.runs.manifest import read_json, write_json
from agon.runs.matches import write_matches

MICROSCOPE_FILE = "microscope.json"
"""Where an examination of a run's pair lies in its folder."""
MICROSCOPE_FORMAT = 1
"""Version of that file's format."""

MATCHES_HASH = "matches_sha256"
"""Entry of a result: the hash of the file with its matches."""

PROMPT_SETTINGS = ("wording", "withholding", "answer_style")
"""The settings of `[task]` that say how players are asked and read: a result's `prompts` hold them as it was measured."""

_PROMPT_NOTE = re.compile(rf"measured with task\.({'|'.join(PROMPT_SETTINGS)})=([\w-]+), trained with ([\w-]+)")
_MATCHES = ".matches.jsonl.gz"
_NUMBER = int | float
_INTERVAL = {"low": _NUMBER, "high": _NUMBER, "level": _NUMBER, "kind": str, "unit": str, "n": int}
_FORMS: Mapping[str, Any] = {
    **dict.fromkeys(("label", "title", "task", "protocol", "direction", "method", "split"), str),
    **dict.fromkeys(("n", "samples", "seed", "checkpoint"), int),
    **dict.fromkeys(
        ("accuracy", "dev_accuracy", "challenged_share", "conversion", "regression", "blind_second"), _NUMBER
    ),
    **dict.fromkeys(("copy_rate", "leak_rate", "empty_summary_share", "truncated_share"), _NUMBER),
    **dict.fromkeys(("temperature", "top_p", "latency_s"), _NUMBER),
    "doubled_cap": bool,
    "caps": {"draft": int, "challenge": int, "summary": int},
    "prompts": {None: str},
    "tokens": {None: _NUMBER},
    "pass_at_k": {None: _NUMBER},
    "outcomes": {None: int},
    "interval": _INTERVAL,
    "intervals": {None: _INTERVAL},
    "players": {"drafters": list, "challenger": str},
    "lineup": {"layers": int},
    "per_problem": [{"id": str, "correct": list}],
    "notes": [str],
}
MAX_LABEL = 100
"""Most characters of a label: with its endings it is the name of a file."""

_LABEL = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+\-]{{0,{MAX_LABEL - 1}}}")


def check_label(label: str) -> None:
    """Check that a result can be filed under a label.

    Raises:
        RunError: it cannot be a file name.
    """
    if not _LABEL.fullmatch(label):
        raise RunError(
            f"evaluation label {label!r} cannot be a file name: use letters, digits and . _ + - (at most {MAX_LABEL})"
        )


def write_evaluation(run: Path, label: str, result: Mapping[str, Any], matches: Iterable[Match] | None = None) -> Path:
    """Write a result, and its matches first if given; an earlier result of the same label is replaced. Return the JSON's path.

    The result holds the hash of its matches: a process that is killed between the two leaves an old result with new matches.

    Raises:
        RunError: the label cannot be a file name, or the place cannot be written to or is a link out of the folder.
    """
    check_label(label)
    refuse_link_outside(run, "evaluations")
    folder = run / "evaluations"
    with output_errors(folder):
        folder.mkdir(exist_ok=True)
    if matches is not None:
        matches_path = evaluation_matches_path(run, label)
        write_matches(matches_path, matches)
        result = {**result, MATCHES_HASH: sha256_of(matches_path)}
    path = folder / f"{label}.json"
    write_json(path, result)
    return path


def matches_of(file: Path, result: Mapping[str, Any]) -> Path | None:
    """Return the matches that a result was counted from, or None where none were kept.

    Raises:
        RunError: those that lie beside it are others, or damaged.
    """
    path = file.with_name(f"{file.stem}{_MATCHES}")
    if not path.exists():
        return None
    expected = result.get(MATCHES_HASH)
    with input_errors(path):
        if expected not in (None, sha256_of(path)):
            raise RunError(
                f"{path} is not what {file.name} was counted from (its sha256 differs): evaluate again, or remove both"
            )
    return path


def read_evaluations(run: Path) -> list[dict[str, Any]]:
    """Return every result of a run folder, by label.

    Raises:
        RunError: a file is damaged.
    """
    return [read_evaluation(path) for path in evaluation_files(run)]


def read_evaluation(file: Path) -> dict[str, Any]:
    """Return a result with its label. What older results do not have is absent; what is there has the form that it was written in.

    Raises:
        RunError: the file is missing or damaged.
    """
    result = {"label": file.stem, **read_json(file)}
    for name, value in result.items():
        if not _has_form(value, _FORMS.get(name)):
            raise RunError(
                f"{file} is no evaluation: {name} is {str(value)[:40]!r}; evaluate again, or remove the file"
            )
    return result


def _has_form(value: Any, form: Any) -> bool:
    """Tell whether a value has a form: types, a list of one form, a table of one form (under None) or of some entries, or unknown (None)."""
    if form is None or value is None:
        return True
    if isinstance(form, list):
        return isinstance(value, list) and all(
            item is not None and _has_form(item, form[0]) for item in cast("list[Any]", value)
        )
    if isinstance(form, dict):
        known = cast("dict[str | None, Any]", form)
        items = cast("dict[str, Any]", value).items() if isinstance(value, dict) else None
        return items is not None and all(_has_form(item, known.get(key, known.get(None))) for key, item in items)
    # True is an int for Python, and for nobody else.
    return isinstance(value, form) and (form is bool or not isinstance(value, bool))


def prompt_note(name: str, asked: str, trained: str) -> str:
    """Say in a result's notes that a setting of `PROMPT_SETTINGS` was not as in training."""
    return f"measured with task.{name}={asked}, trained with {trained}"


def noted_prompts(result: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return what a result's own notes say was not as in training, by setting: as it was asked, and as trained."""
    notes = map(str, result.get("notes") or ())
    return {found[1]: (found[2], found[3]) for note in notes if (found := _PROMPT_NOTE.fullmatch(note))}


def has_doubled_cap(result: Mapping[str, Any]) -> bool:
    """Tell whether a result, as `read_evaluation` returns it, was made with twice the caps of its run's settings.

    An older one says so in its label alone, behind the protocol: `single-a-doubled-cap`. The quickstart's `grpo-doubled-cap` is a single
    answer of a run that was trained so, with its own caps.
    """
    said = result.get("doubled_cap")
    if said is not None:
        return bool(said)
    protocol = re.escape(str(result.get("protocol") or ""))
    return re.search(rf"(?:^|-){protocol}-(?:.*-)?doubled-cap(?:-|$)", str(result["label"])) is not None


def protocol_title(result: Mapping[str, Any]) -> str:
    """Name a result's protocol for people: with its doubled cap, where it has one."""
    return str(result.get("protocol", "")) + (", doubled cap" if has_doubled_cap(result) else "")


def evaluation_files(run: Path) -> list[Path]:
    """Return the result files of a run folder (or of a parent of runs), by name."""
    # A hidden file is one that is still being written.
    return sorted(path for path in (run / "evaluations").glob("*.json") if not path.name.startswith("."))


def evaluation_matches_path(run: Path, label: str) -> Path:
    """Return where the matches of an evaluation are (or would be)."""
    return run / "evaluations" / f"{label}{_MATCHES}"
