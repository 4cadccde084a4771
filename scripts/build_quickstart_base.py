"""Build the embedded base of the quickstart from scratch: tokenizer, tiny Llama-shaped model, chat template.

    OMP_NUM_THREADS=1 python scripts/build_quickstart_base.py [--out src/agon/assets/quickstart-base]

One recipe, one seed, one CPU thread: about 6 minutes on a free server core, up to 25 on a busy shared one. Another machine or torch
version rounds differently, so the weights are not promised to be the same to the bit; `scripts/measure_quickstart_base.py` shows
whether a base is as good.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from quickstart_searcher import (
    ASSISTANT,
    EOS,
    IDS,
    PAD,
    SPECIAL_TOKENS,
    TAGS,
    UNK,
    USER,
    VOCABULARY,
    Habits,
    LossWeights,
    Mixture,
    Trace,
    practice,
)
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

DEFAULT_OUT = Path(__file__).parents[1] / "src" / "agon" / "assets" / "quickstart-base"
CONTEXT = 256
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{{ '" + USER + " ' + (message['content'] | trim) + ' ' }}"
    "{%- elif message['role'] == 'assistant' -%}{{ '"
    + ASSISTANT
    + " ' + (message['content'] | trim) + ' "
    + EOS
    + " ' }}"
    "{%- else -%}{{ raise_exception('the quickstart base knows the roles user and assistant only') }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '" + ASSISTANT + "' }}{%- endif -%}"
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what base comes out."""

    seed: int = 7
    steps: int = 8000
    batch: int = 16
    peak_lr: float = 6e-3
    warmup: int = 100
    weight_decay: float = 0.05
    hidden: int = 64
    layers: int = 3
    heads: int = 4
    intermediate: int = 176
    rope_theta: float = 1000.0
    habits: Habits = field(default_factory=Habits)
    weights: LossWeights = field(default_factory=LossWeights)
    mixture: Mixture = field(default_factory=Mixture)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word; text may be written with or without spaces: `(a-b)*c = 25` reads as `(a-b) *c =25`."""
    tokenizer = Tokenizer(models.WordLevel(dict(IDS), unk_token=UNK))
    tokenizer.normalizer = normalizers.Replace(Regex(r"=\s+"), "=")
    words = r"\([abc][-+*][abc]\)|[-+*][abc]|=[0-9a-z]+|[0-9]+|[a-z]+|\S"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(words), "isolated")]
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(recipe: Recipe) -> LlamaForCausalLM:
    """A random model whose number embeddings start from waves of the value, so that sums need not be learned fact by fact."""
    torch.manual_seed(recipe.seed)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": recipe.rope_theta},
        initializer_range=1.0 / math.sqrt(recipe.hidden),
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=IDS[EOS],
        pad_token_id=IDS[PAD],
    )
    model = LlamaForCausalLM(config)
    waves = torch.tensor([2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 16.0, 33.0, 66.0])
    with torch.no_grad():
        for module in (model.model.embed_tokens, model.lm_head):
            for token, index in IDS.items():
                digits = token.removeprefix("=")
                if digits.isdigit():
                    angles = 2 * math.pi * int(digits) / waves
                    features = torch.cat([angles.sin(), angles.cos()])
                    module.weight[index, : len(features)] = features * module.weight.std()
    return model


@dataclass(frozen=True)
class Batch:
    tokens: Tensor
    targets: Tensor
    weights: Tensor


def collate(traces: list[Trace]) -> Batch:
    """Pad on the right. `targets[i, t]` are the odds of the token after position t."""
    longest = max(len(trace.tokens) for trace in traces)
    tokens = torch.full((len(traces), longest), IDS[PAD])
    targets = torch.zeros(len(traces), longest - 1, len(VOCABULARY))
    weights = torch.zeros(len(traces), longest - 1)
    odds: list[tuple[int, int, int, float]] = []
    for row, trace in enumerate(traces):
        tokens[row, : len(trace.tokens)] = torch.tensor([IDS[token] for token in trace.tokens])
        weights[row, : len(trace.tokens) - 1] = torch.tensor(trace.weights[1:])
        odds += [
            (row, column, IDS[token], share)
            for column, choices in enumerate(trace.odds[1:])
            for token, share in choices
        ]
    rows, columns, ids, shares = zip(*odds, strict=True)
    targets[rows, columns, ids] = torch.tensor(shares)
    return Batch(tokens, targets, weights)


def batches(recipe: Recipe) -> Iterator[Batch]:
    """Traces of like length together: a pool of them is drawn, sorted and cut."""
    rng = random.Random(recipe.seed)
    pool_size = 8
    while True:
        pool = [
            practice(rng, mixture=recipe.mixture, habits=recipe.habits, weights=recipe.weights)
            for _ in range(pool_size * recipe.batch)
        ]
        pool.sort(key=lambda trace: len(trace.tokens))
        cuts = [pool[start : start + recipe.batch] for start in range(0, len(pool), recipe.batch)]
        rng.shuffle(cuts)
        yield from (collate(cut) for cut in cuts)


def learning_rate(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then linear to zero: the last steps settle the odds."""
    return recipe.peak_lr * min(1.0, (step + 1) / recipe.warmup) * (1.0 - step / recipe.steps)


def train(model: LlamaForCausalLM, recipe: Recipe) -> None:
    """Fit the model to the searcher's odds."""
    matrices = [weight for name, weight in model.named_parameters() if weight.ndim == 2 and "embed" not in name]
    others = [weight for name, weight in model.named_parameters() if weight.ndim != 2 or "embed" in name]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.peak_lr, betas=(0.9, 0.98))
    started, stream = time.monotonic(), batches(recipe)
    for step in range(recipe.steps):
        batch = next(stream)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, recipe)
        logprobs = functional.log_softmax(model(input_ids=batch.tokens[:, :-1]).logits.float(), dim=-1)
        losses = -(batch.targets * logprobs).sum(-1) * batch.weights
        loss = losses.sum() / batch.weights.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0 or step == recipe.steps - 1:
            print(f"step {step:5d}  loss {loss.item():.4f}  {time.monotonic() - started:.0f} s", flush=True)


def save(model: LlamaForCausalLM, out: Path) -> None:
    """Write an ordinary model folder."""
    model.generation_config = GenerationConfig(
        eos_token_id=IDS[EOS], pad_token_id=IDS[PAD], do_sample=True, temperature=0.6, top_p=0.95
    )
    model.save_pretrained(out)
    build_tokenizer().save_pretrained(out)
    # The name every version of transformers and vLLM knows the plain fast tokenizer by.
    settings = out / "tokenizer_config.json"
    settings.write_text(re.sub(r'("tokenizer_class": )"\w+"', r'\1"PreTrainedTokenizerFast"', settings.read_text()))
    # Otherwise a private file: other users could not load an installed package's base.
    (out / "model.safetensors").chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipe = Recipe(steps=arguments.steps)
    model = build_model(recipe)
    print(f"{sum(weight.numel() for weight in model.parameters())} parameters, {len(VOCABULARY)} symbols")
    train(model, recipe)
    save(model, arguments.out)


if __name__ == "__main__":
    main()
