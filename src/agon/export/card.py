"""The model card beside an export: what was trained, how, what was measured, how to load it. Facts of the run, and nothing else."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agon.config import TaskSettings
from agon.export.base import NamedBase
from agon.export.prompts import Prompts
from agon.export.trained import Trained
from agon.imported import is_own
from agon.prompts.withhold import WITHHELD
from agon.tasks.sources import verifier_of

Kind = Literal["adapter", "merged", "gguf"]
_LIBRARY = {"adapter": "peft", "merged": "transformers", "gguf": "gguf"}
_PAPER = "https://arxiv.org/abs/2607.07690"
_DEPLOYED = {
    "cascade": "one adapter drafts, the other reads the draft's summary, its answer withheld, and solves the problem itself",
    "answer-visible": "one adapter drafts, the other reads the draft's summary with its answer and solves the problem itself",
    "self-cascade": "the adapter drafts, then reads the draft's summary, its answer withheld, and solves the problem again",
    "single": "the adapter answers in one pass",
}
# Long enough for every prompt: a prompt may hold a fence of three.
_FENCE = "````"


@dataclass(frozen=True, slots=True)
class Card:
    """What a card tells of. `name` None is the card of a pair whose halves lie in folders of their own; `lines` is what was done and measured.

    `file` is the GGUF file's name; `licence` what the base's folder says of its licence.
    """

    trained: Trained
    base: NamedBase
    kind: Kind
    name: str | None
    prompts: Prompts | None
    licence: str | None
    lines: Sequence[str] = ()
    file: str | None = None


def card_text(card: Card) -> str:
    """Return the card as Markdown with the head that model hubs read."""
    parts = [_head(card), f"# {_title(card)}", _what(card), _training(card), _use(card)]
    if card.prompts is not None:
        parts.append(_prompts(card, card.prompts))
    parts += [_measured(card.trained), _licence(card)]
    return "\n\n".join(parts) + "\n"


def deployed(trained: Trained) -> str:
    """Say how the run's adapters were trained to be used."""
    return _DEPLOYED[trained.protocol]


def _head(card: Card) -> str:
    lines = ["---"]
    if card.base.is_known:
        relation = {"adapter": "adapter", "merged": "finetune", "gguf": "quantized"}[card.kind]
        # A JSON text is a YAML one, whatever a path holds.
        lines += [f"base_model: {json.dumps(card.base.name, ensure_ascii=False)}", f"base_model_relation: {relation}"]
    lines += [f"library_name: {_LIBRARY[card.kind]}", "pipeline_tag: text-generation", "tags:", "- agon"]
    return "\n".join([*lines, *(["- lora"] if card.kind == "adapter" else []), "---"])


def _title(card: Card) -> str:
    what = f"adapter {card.name}" if card.name is not None else "a pair of adapters"
    how = {"adapter": "", "merged": ", merged", "gguf": ", merged, as GGUF"}[card.kind]
    return f"{card.base.name.rpartition('/')[2]}: {what}{how}"


def _what(card: Card) -> str:
    trained = card.trained
    if not trained.method.has_pair:
        return f"Trained alone, with the method `{trained.method.name}`. It was trained so that {deployed(trained)}."
    intended = f"It was trained so that {deployed(trained)}; {_who_drafts(trained)}."
    if card.name is None:
        return f"A pair of LoRA adapters of one frozen base, `A/` and `B/`. {intended} Deploy both."
    other = next(name for name in trained.method.adapters if name != card.name)
    return (
        f"One half of a pair. {intended} This is {card.name}: **it was trained to be deployed with {other}**. What it does alone was measured "
        "only where the table below has a row `single` for it."
    )


def _who_drafts(trained: Trained) -> str:
    roles = {name: trained.roles(name) for name in trained.method.adapters}
    if len(set(roles.values())) == 1:
        return "either may draft"
    return ", ".join(f"{name} was the {' and '.join(played)}" for name, played in roles.items())


def _training(card: Card) -> str:
    trained, settings = card.trained, card.trained.settings
    adapter, train = settings.adapter, settings.train
    targets = adapter.targets if isinstance(adapter.targets, str) else ", ".join(adapter.targets)
    revision = f", revision {card.base.revision}" if card.base.revision else ""
    unknown = "" if card.base.is_known else " (its name where it was trained)"
    rows = {
        "base": f"{card.base.name}{revision}{unknown}; sha256 of configuration and weights {trained.identity.sha256[:16]}…",
        "method": f"`{trained.method.name}`: {_method_line(trained)}",
        "adapter": f"LoRA, rank {adapter.rank}, alpha {adapter.alpha:g}, layers {targets}; starts as `{adapter.init}`",
        "steps": f"{trained.step}, {'the whole run' if trained.is_finished else f'of {train.steps}: the run had not ended'}",
        **{
            f"adapter {name}": _steps_and_roles(trained, name)
            for name in ([card.name] if card.name else trained.adapters)
        },
        "sampled": _sampled(trained),
        "task": _task(trained),
        "summary": _summary(trained),
        "seed": str(train.seed),
        "learning rate": f"{train.learning_rate:g}, {train.schedule}",
        "software": ", ".join(f"{name} {version}" for name, version in trained.versions.items()),
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value)
    done = "".join(f"\n- {line}" for line in card.lines)
    return f"## Training\n\n| | |\n|---|---|\n{table}" + (f"\n\nExport:\n{done}" if done else "")


def _method_line(trained: Trained) -> str:
    said = (type(trained.method).__doc__ or "").strip().splitlines()
    return f"{said[0] if said else ''} ([Agon]({_PAPER}))" if trained.method.has_pair else (said[0] if said else "")


def _steps_and_roles(trained: Trained, name: str) -> str:
    roles = " and ".join(trained.roles(name)) or "none"
    return f"{trained.adapters[name].version} optimiser steps; roles played: {roles}"


def _sampled(trained: Trained) -> str:
    count = trained.progress.get("rollouts_generated")
    return f"{count} completions" if isinstance(count, int) else ""


def _task(trained: Trained) -> str:
    task = trained.settings.task
    # Only the last part: folders of the machine where it was trained are nobody's business.
    source = task.hub or (task.path or task.test_path or "").replace("\\", "/").rpartition("/")[2]
    return f"{task.name}{f' ({source})' if source else ''}, answers marked by `{task.answer_style}`"


def _summary(trained: Trained) -> str:
    """Say what a challenger reads of a draft; nothing where nobody reads one."""
    if trained.protocol == "single":
        return ""
    task = trained.settings.task
    said = "the tries that a draft names" if _shows_tries(task) else "what a draft says after its reasoning"
    if trained.protocol == "answer-visible":
        return f"{said}, with its answer"
    if _shows_tries(task):
        return f"{said}, without those that hit the target"
    if task.withholding == "drop":
        return f"{said}, without the sentences that show its answer"
    return f"{said}, `{WITHHELD}` where it shows its answer"


def _shows_tries(task: TaskSettings) -> bool:
    """Tell whether a challenger reads a draft's tries alone, of which a hit leaves no mark."""
    # A verifier of the user's own is a program, which no card imports.
    return not is_own(task.verifier) and verifier_of(task) == "expression"


def _use(card: Card) -> str:
    blocks = {"adapter": _use_adapter, "merged": _use_merged, "gguf": _use_gguf}[card.kind](card)
    return f"## Use\n\n{blocks}{_served(card.trained)}"


def _served(trained: Trained) -> str:
    """Say how the pair is played by two servers, each with one half, if its prompts can be had there."""
    task = trained.settings.task
    if not trained.method.has_pair or trained.protocol != "cascade":
        return ""
    if task.wording == "symbols-v1":
        return "\n\nThe pair plays by `agon serve RUN` alone: over two servers agon asks in words, which this base does not know."
    if _shows_tries(task):
        return "\n\nThe pair plays by `agon serve RUN` alone: over two servers a challenger reads words, and this one was trained on tries."
    # Another answer style, wording or withholding is another prompt than the pair was trained on.
    told = {"answer-style": task.answer_style} | _chosen(task, "wording", "withholding")
    options = " ".join(f"--{name} {value}" for name, value in told.items())
    thinking = trained.settings.model.enable_thinking
    switch = (
        ""
        if thinking is None
        else f" Their chat template needs `enable_thinking = {str(thinking).lower()}`, as in training; agon does not send it."
    )
    return (
        "\n\nThe pair over two servers that speak OpenAI's protocol, asked in the words it was trained on: "
        f"`agon serve --drafter URL --challenger URL {options}`.{switch}"
    )


def _chosen(task: TaskSettings, *names: str) -> dict[str, str]:
    """Return those of some settings that are not what they are by default."""
    values = {name: getattr(task, name) for name in names}
    return {name: value for name, value in values.items() if value != TaskSettings.model_fields[name].default}


def _use_adapter(card: Card) -> str:
    names = [card.name] if card.name is not None else list(card.trained.adapters)
    folders = {name: "FOLDER" if card.name is not None else f"FOLDER/{name}" for name in names}
    base = card.base.name if card.base.is_known else "BASE"
    first = folders[names[0]]
    modules = " ".join(f"{name}={folder}" for name, folder in folders.items())
    rank = _vllm_rank(card.trained.settings.adapter.rank)
    where = "" if card.base.is_known else f"`BASE` is the folder of the base{_place(card)}. "
    return (
        f"{where}`FOLDER` is where this card lies.\n\n"
        "```python\nfrom peft import PeftModel\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f"base = AutoModelForCausalLM.from_pretrained({json.dumps(base, ensure_ascii=False)}{_revision(card)})\n"
        f'model = PeftModel.from_pretrained(base, "{first}")\ntokenizer = AutoTokenizer.from_pretrained("{first}")\n```\n\n'
        f"```sh\nvllm serve {shlex.quote(base)} --enable-lora --max-lora-rank {rank} --lora-modules {modules}\n```"
    )


def _place(card: Card) -> str:
    return ", `assets/quickstart-base` in agon's package" if card.trained.settings.model.base == "quickstart" else ""


def _revision(card: Card) -> str:
    return f', revision="{card.base.revision}"' if card.base.revision else ""


def _vllm_rank(rank: int) -> int:
    """Return the smallest of the ranks that vLLM can be started with which holds this one."""
    return next((known for known in (8, 16, 32, 64, 128, 256, 320, 512) if known >= rank), rank)


def _use_merged(card: Card) -> str:
    folder = "FOLDER" if card.name is not None else f"FOLDER/{next(iter(card.trained.adapters))}"
    return (
        "```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f'model = AutoModelForCausalLM.from_pretrained("{folder}")\ntokenizer = AutoTokenizer.from_pretrained("{folder}")\n```\n\n'
        f"```sh\nvllm serve {folder}\n```"
    )


def _use_gguf(card: Card) -> str:
    return f"```sh\nllama-server -m {card.file or 'FILE.gguf'}\n```"


def _prompts(card: Card, prompts: Prompts) -> str:
    shown = [f"A draft is asked for with\n\n{_FENCE}\n{prompts.draft.text}\n{_FENCE}"]
    if card.trained.protocol != "single":
        shown.append(f"a challenge with\n\n{_FENCE}\n{prompts.challenge.text}\n{_FENCE}")
    rollout = card.trained.settings.rollout
    caps = (
        f"Caps while training: {rollout.max_draft_tokens} tokens a draft, {rollout.max_challenge_tokens} a challenge, "
    )
    return "## Prompts\n\n" + "\n\n".join(shown) + f"\n\n{caps}{rollout.max_summary_tokens} a summary."


def _measured(trained: Trained) -> str:
    if not trained.evaluations:
        return "## Measured\n\nThis run was not evaluated."
    head = "| task | split | protocol | who | accuracy | 95 % interval | n | samples | label |\n|---|---|---|---|---|---|---|---|---|"
    rows = "\n".join(_row(result) for result in trained.evaluations)
    return (
        f"## Measured\n\n{head}\n{rows}\n\nn is the number of problems. A label that names a step is of that checkpoint; the others are of the "
        "newest one at the time. One run is one seed: an interval covers the sampling of problems, not the variance between trainings."
    )


def _row(result: Mapping[str, Any]) -> str:
    players: Mapping[str, Any] = result.get("players") or {}
    drafters = [str(name or "base") for name in players.get("drafters") or []]
    challenger = players.get("challenger")
    who = " → ".join([",".join(drafters), *([str(challenger)] if challenger else [])])
    interval = result["interval"]
    cells = (
        *(result.get("task"), result.get("split"), result["protocol"], who, f"{result['accuracy']:.3f}"),
        f"[{interval['low']:.3f}, {interval['high']:.3f}] {interval['kind']} by {interval['unit']}",
        *(result["n"], result.get("samples"), result["label"]),
    )
    return "| " + " | ".join("" if cell is None else str(cell).replace("|", "\\|") for cell in cells) + " |"


def _licence(card: Card) -> str:
    said = f"Its folder names `{card.licence}`." if card.licence else "Nothing about it was found in the base's folder."
    return f"## Licence\n\nUnknown: none was stated for these weights. They derive from the base, whose terms apply. {said}"
