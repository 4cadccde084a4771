from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import agon
from agon.errors import EngineError
from agon.rollout.text import TextReader
from agon.serve.text import TextStream

FAMILY = "👨‍👩‍👧‍👦"
THAI = "สวัสดีครับ ที่นี่"
SAMPLES = [
    "so 2 + 2 = 4, 😀!",
    f"a {FAMILY} of four",
    THAI,
    "naïve café 世界你好",
    "<think>hm</think> x <answer>4</answer>",
]


def _byte_level():
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    # Few enough merges that most characters beyond ASCII are several tokens, and some tokens hold parts of two.
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    inner.train_from_iterator([*SAMPLES, "世世世界界界😀😀😀😀"] * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|end|>", additional_special_tokens=["<think>", "</think>", "<|turn|>"]
    )


def _byte_fallback():
    """Spaces are marked at the front of a word, the first is no text, and characters without a token are bytes."""
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "▁so",
        "so",
        "▁x",
        "x",
        "4",
        "é",
        "�",
    ]
    inner = Tokenizer(
        models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True)
    )
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def _words(decoder, pieces):
    inner = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(["<unk>", *pieces])}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoder
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")
    tokenizer.add_tokens([AddedToken("<answer>", special=True), AddedToken("</answer>", special=False)])
    return tokenizer


TOKENIZERS = {
    "byte-level": _byte_level(),
    "byte-fallback": _byte_fallback(),
    "embedded": AutoTokenizer.from_pretrained(Path(agon.__file__).parent / "assets" / "quickstart-base"),
    "metaspace": _words(decoders.Metaspace(), ["▁", "▁so", "so", "▁x", "x", "▁▁"]),
    "wordpiece": _words(decoders.WordPiece(), ["so", "##me", "##'t", ".", "n", "x"]),
    "suffixes": _words(decoders.BPEDecoder("</w>"), ["so</w>", "so", "x</w>", "x"]),
}
READERS = {name: TextReader(tokenizer) for name, tokenizer in TOKENIZERS.items()}


def _stream(reader, ids, sizes=None):
    """The pieces, token by token or in chunks of these sizes."""
    stream, pieces, first = TextStream(reader), [], 0
    for size in sizes or [1] * len(ids):
        pieces.append(stream.add(ids[first : first + size]))
        first += size
    pieces.append(stream.add(ids[first:]))
    pieces.append(stream.finish(reader.read(ids, has_stop=False)))
    assert stream.num_characters == sum(map(len, pieces))
    return pieces


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_pieces_of_any_tokens_in_any_portions_add_up_to_the_text_of_all(name, data):
    reader = READERS[name]
    ids = data.draw(st.lists(st.integers(0, len(TOKENIZERS[name]) - 1), max_size=60))
    sizes = data.draw(st.lists(st.integers(0, 20), max_size=10)) if data.draw(st.booleans()) else None
    assert "".join(_stream(reader, ids, sizes)) == reader.read(ids, has_stop=False)


@pytest.mark.parametrize("name", ["byte-level", "byte-fallback"])
@given(data=st.data())
def test_broken_characters_among_whole_ones_add_up(name, data):
    tokenizer, reader = TOKENIZERS[name], READERS[name]
    names = [f"<0x{byte:02X}>" for byte in range(256)] if name == "byte-fallback" else _gpt2_characters()
    byte_ids = tokenizer.convert_tokens_to_ids(names)
    words = tokenizer.encode(SAMPLES[0] + FAMILY, add_special_tokens=False)
    ids = data.draw(st.lists(st.sampled_from(byte_ids) | st.sampled_from(words), max_size=80))
    assert "".join(_stream(reader, ids)) == reader.read(ids, has_stop=False)


@given(text=st.text(max_size=30) | st.sampled_from([*SAMPLES, FAMILY, "🇩🇪🇹🇭", "é" * 9]), cut=st.integers(0, 100))
def test_of_a_byte_level_text_nothing_but_an_unfinished_character_is_held_back(text, cut):
    tokenizer, reader = TOKENIZERS["byte-level"], READERS["byte-level"]
    ids = tokenizer.encode(text, add_special_tokens=False)
    stream, so_far = TextStream(reader), ""
    for number, token in enumerate(ids[:cut], 1):
        so_far += stream.add([token])
        assert so_far == reader.read(ids[:number], has_stop=False).rstrip("\ufffd")
        assert "\ufffd" not in so_far or "\ufffd" in text
    # What the cap on tokens cut inside a character is told at the end.
    whole = reader.read(ids[:cut], has_stop=False)
    assert so_far + stream.finish(whole) == whole


def test_an_emoji_comes_whole_with_its_last_token():
    reader = READERS["byte-level"]
    alphabet = dict(zip(_gpt2_bytes(), _gpt2_characters(), strict=True))
    ids = [TOKENIZERS["byte-level"].convert_tokens_to_ids(alphabet[byte]) for byte in "a😀".encode()]
    assert _stream(reader, ids) == ["a", "", "", "", "😀", "", ""]
    # A cap that ends it early leaves the sign for a broken character, once, at the end.
    assert _stream(reader, ids[:4]) == ["a", "", "", "", "", "\ufffd"]


@pytest.mark.parametrize("num_broken", range(10, 24))
def test_an_emoji_after_many_broken_bytes_is_whole(num_broken):
    alphabet = dict(zip(_gpt2_bytes(), _gpt2_characters(), strict=True))
    data = b"\x80" * num_broken + "😀a".encode()
    ids = [TOKENIZERS["byte-level"].convert_tokens_to_ids(alphabet[byte]) for byte in data]
    assert "".join(_stream(READERS["byte-level"], ids)) == "\ufffd" * num_broken + "😀a"


def _gpt2_bytes():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in printable]


def _gpt2_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte) for byte in printable] + [chr(256 + number) for number in range(256 - len(printable))]


def test_special_tokens_are_left_out_and_the_tags_of_an_answer_are_not():
    tokenizer, reader = TOKENIZERS["byte-level"], READERS["byte-level"]
    special = tokenizer.convert_tokens_to_ids(["<|turn|>", "<think>", "</think>"])
    body = tokenizer.encode("so <answer>4</answer>", add_special_tokens=False)
    pieces = _stream(reader, [special[0], special[1], special[0], special[2], *body])
    assert "".join(pieces) == "<think></think>so <answer>4</answer>"


@pytest.mark.parametrize(
    ("name", "pieces", "text"),
    [
        ("byte-fallback", ["▁so", "▁x", "▁", "▁so"], "so x  so"),
        ("byte-fallback", ["▁", "▁so"], " so"),
        ("byte-fallback", ["▁so", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "x"], "so😀x"),
        # One byte too many breaks the whole row of bytes.
        ("byte-fallback", ["so", "<0xC3>", "<0xA9>", "<0x80>", "x"], "so\ufffd\ufffd\ufffdx"),
        ("metaspace", ["▁so", "▁x", "x"], "so xx"),
        ("suffixes", ["so</w>", "x", "x</w>", "so</w>"], "so xx so"),
    ],
)
def test_tokens_that_mark_their_spaces_keep_them(name, pieces, text):
    ids = [TOKENIZERS[name].convert_tokens_to_ids(piece) for piece in pieces]
    assert "".join(_stream(READERS[name], ids)) == text


@pytest.mark.parametrize("kind", ["words", "one broken byte", "bytes of a character", "specials"])
@pytest.mark.parametrize("name", ["byte-level", "byte-fallback", "embedded"])
def test_a_token_costs_the_same_however_long_the_text_is(name, kind):
    tokenizer = TOKENIZERS[name]
    first = {"byte-level": "ð", "byte-fallback": "<0xF0>", "embedded": "7"}[name]
    ids = {
        "words": tokenizer.encode("so x ", add_special_tokens=False),
        "one broken byte": [tokenizer.convert_tokens_to_ids(first)],
        "bytes of a character": tokenizer.encode("😀", add_special_tokens=False),
        "specials": [tokenizer.all_special_ids[0]],
    }[kind]
    reader = CountingReader(tokenizer)
    stream = TextStream(reader)
    for number in range(3_000):
        stream.add([ids[number % len(ids)]])
    # Each read costs as much as it has tokens: at most the held ones and a few before them, a few times.
    assert reader.num_read <= 3_000 * 60


class CountingReader(TextReader):
    """Counts the tokens that it is asked to read."""

    num_read = 0

    def read(self, token_ids, *, has_stop):
        self.num_read += len(token_ids)
        return super().read(token_ids, has_stop=has_stop)


def test_a_text_that_was_read_otherwise_while_it_grew_is_an_error_and_not_a_wrong_text():
    stream = TextStream(READERS["embedded"])
    stream.add([15, 16])
    with pytest.raises(EngineError, match="cannot be streamed"):
        stream.finish("other")


def test_without_a_tokenizer_there_is_no_text():
    stream = TextStream(TextReader(None))
    assert stream.add([1, 2, 3]) == ""
    assert stream.finish("") == ""
