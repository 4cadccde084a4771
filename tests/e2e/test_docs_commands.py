"""The commands of README.md and docs/ run, page by page and from top to bottom, as a reader would follow them.

What they name is checked by tests/unit/test_docs_commands.py. Here trainings are small, and stand-ins take the place of what a reader has.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from agon.runs.manifest import read_json, write_json
from agon.runs.parent import create_parent

_SPEC = importlib.util.spec_from_file_location("docs_pages", Path(__file__).parents[1] / "docs_pages.py")
pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pages)
ROOT = pages.ROOT

# Checked, but not run, and why.
NOT_RUN = {
    r"agon train": "five minutes; test_quickstart.py runs it small",
    r"agon ablate matrix-quickstart( --resume)?": "an hour; test_ablate.py runs, kills and resumes a small one",
    r"agon compare runs/matrix-quickstart": "needs that matrix; test_ablate.py compares a small one",
    r".*(svamp\.jsonl|task\.name=mbpp|humaneval|gsm8k|math500|evidence-math|OWNER/NAME).*": "from the Hub",
    r"agon eval runs/mine --task problems\.jsonl .*": "the run of the embedded base reads no words",
    r"agon export .*--gguf.*": "llama.cpp's converter; test_run_gguf.py has a stand-in",
    r"agon serve .*--drafter.*": "two servers of language models; remote/test_service.py has stand-ins",
    r"make .*": "the targets start these tests, or a whole quickstart",
    r"pip .*": "installs",
    r"curl .*": "test_readme.py and remote/test_service.py ask servers so",
}
SLOW = re.compile(r"(agon (train|ablate|serve|doctor)\b(?!.*--dry-run)|python ).*")
# A model of the Hub, and a checkpoint of a longer run.
STANDS_IN = {"HuggingFaceTB/SmolLM2-135M-Instruct": "FOLDER", "40": "2"}
RECIPE = """
[model]
base = "FOLDER"
[task]
name = "custom"
path = "mine.jsonl"
[rollout]
max_draft_tokens = 16
max_challenge_tokens = 16
max_summary_tokens = 8
[verifier]
workers = 1
"""
CHAT = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}<assistant>"


def write_base(folder: Path) -> None:
    """Write a base of random weights that reads any text, byte by byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({sign: number for number, sign in enumerate(["</s>", *alphabet])}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", chat_template=CHAT)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(alphabet) + 1, max_position_embeddings=4096, eos_token_id=0, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def world(agon, trained, tmp_path_factory) -> Path:
    """A folder with everything that the docs presuppose."""
    place = tmp_path_factory.mktemp("world")
    create_parent(place / "runs" / "quickstart", children=["agon"], default="agon")
    child = place / "runs" / "quickstart" / "agon"
    for run in (place / "runs" / "mine", child):
        # Other tests measure the same run.
        shutil.copytree(trained, run, ignore=shutil.ignore_patterns("evaluations"))
    assert agon("eval", child, "--protocol", "cascade") == 0
    other = shutil.copytree(child, place / "runs" / "other")
    settings = read_json(other / "config.json")
    write_json(other / "config.json", {**settings, "train": {**settings["train"], "seed": 1}})
    write_base(place / "FOLDER")
    for name in pages.RECIPES:
        (place / name).write_text(RECIPE)
    for name in ("examples", "recipes"):
        (place / name).symlink_to(ROOT / name)
    write_rows(place / "mine.jsonl", [{"problem": f"What is {n} + 7?", "answer": f"{n + 7}"} for n in range(100)])
    write_rows(place / "evaluation.jsonl", [{"problem": f"What is {n} - 7?", "answer": f"{n - 7}"} for n in range(9)])
    programs = [
        {
            "prompt": f"Multiply a number by {k}.",
            "canonical_solution": f"def f(n):\n    return {k} * n\n",
            "test": f"assert f(5) == {5 * k}\n",
        }
        for k in range(2, 9)  # some for each of the three splits
    ]
    write_rows(place / "problems.jsonl", programs)
    mbpp = {"prompt": "Double it.", "test_list": ["assert f(2) == 4"], "code": "def f(n): return n + n"}
    write_rows(place / "mbpp.jsonl", [mbpp])
    (place / "answer.py").write_text(programs[0]["canonical_solution"])
    return place


@pytest.fixture
def follow(world, agon, serving, small, tmp_path, monkeypatch):
    """Return a function that runs the commands of a page, the slow ones or not."""
    place = shutil.copytree(world, tmp_path / "world", symlinks=True)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))

    def run(command):
        words = [STANDS_IN.get(word, word) for word in command.words]
        if words[0] == "python":
            return subprocess.run([sys.executable, *words[1:]], check=False, timeout=200).returncode
        options = command.options
        if options.command == "serve":
            with serving(*words[2:], env=dict.fromkeys(command.variables, "a-key")) as server:
                headers = {"Authorization": "Bearer a-key"}
                return httpx.get(f"{server.url}/v1/models", headers=headers, timeout=60).status_code - 200
        if "recipes/smollm2-svamp.toml" in words:
            words += ["--set", "model.base=FOLDER"]
        if "own_task:rows" in command.text:
            words += ["--set", "task.num_generated=60"]
        if options.command == "eval" and options.subject == "FOLDER":
            words += ["--set", "evaluation.max_test=4", "--set", "rollout.max_draft_tokens=16"]
        if command.out and not options.dry_run:
            tiny = ("train.steps=2", "train.problems_per_step=2", "rollout.max_draft_tokens=44")
            words += [*small, *(word for key in tiny for word in ("--set", key))]
        if command.out and not options.dry_run and not options.resume:
            shutil.rmtree(command.out, ignore_errors=True)
        return agon(*words[1:])

    def follow(page, *, with_slow):
        left_out = set()
        for step in pages.STEPS[page]:
            if isinstance(step, pages.File):
                content = step.content
                for there, here in STANDS_IN.items():
                    content = content.replace(f'"{there}"', f'"{here}"')
                Path(step.name).write_text(content, encoding="utf-8")
                continue
            reads = set(pages.inputs(step.options)) if step.words[0] == "agon" else set()
            is_slow = SLOW.fullmatch(step.plain) or reads & left_out
            if any(re.fullmatch(one, step.plain) for one in NOT_RUN) or (is_slow and not with_slow):
                left_out |= {step.out} - {*pages.RUNS, None}
                continue
            assert run(step) == 0, f"{step}: {step.text}"

    return follow


WITH_COMMANDS = [page for page, steps in pages.STEPS.items() if any(isinstance(one, pages.Command) for one in steps)]


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_quick_commands_of_a_page_run(page, follow):
    follow(page, with_slow=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_a_page_can_be_followed_from_top_to_bottom(page, follow):
    follow(page, with_slow=True)


def test_every_reason_not_to_run_a_command_has_its_command():
    assert [one for one in NOT_RUN if not any(re.fullmatch(one, command.plain) for command in pages.COMMANDS)] == []
