import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from agon.records import Completion, Problem

SPECIAL = ["<bos>", "<eos>", "<|user|>", "<|assistant|>"]
QWEN_LIKE = "{% for m in messages %}<|user|>{{ m.content }}<eos>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
LLAMA_LIKE = "{{ bos_token }}" + QWEN_LIKE


def byte_tokenizer(chat_template, *, adds_bos=False):
    """One token a byte, so that every text survives and tokens are counted by hand."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 0)]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
    )
    fast.chat_template = chat_template
    return fast


@pytest.fixture(scope="session")
def make_tokenizer():
    return byte_tokenizer


@pytest.fixture(scope="session")
def qwen_like():
    return byte_tokenizer(QWEN_LIKE)


@pytest.fixture(scope="session")
def llama_like():
    return byte_tokenizer(LLAMA_LIKE, adds_bos=True)


@pytest.fixture
def problem():
    return Problem(id="p", question="What is 6 * 7?", gold="42", task="t", verifier="math")


@pytest.fixture
def countdown_problem():
    return Problem(
        id="c",
        question="a 12 b 7 c 5 =25",
        gold="(a-b)*c",
        task="countdown-lite",
        verifier="expression",
        summary_style="tries",
        details={"numbers": [12, 7, 5], "target": 25},
    )


@pytest.fixture
def completion():
    def make(text, stop_reason="stop"):
        return Completion((1,), (0.0,), text, stop_reason, "A", 0)

    return make
