"""Words and signs."""

from __future__ import annotations

from agon.serve.words import num_words, words_of


def test_words_are_counted_as_words_signs_and_letters_of_scripts_without_spaces():
    # what | is | 12345 as 123 + 45 | + | x | ? and 42 | 的 | 答 | 案; internationalisation as internat + ionalisa + tion
    assert num_words("What is 12345+x?") == 7
    assert num_words("42的答案") == 4
    assert num_words("internationalisation") == 3
    assert num_words(" \n") == 0


def test_the_offsets_of_words_are_where_they_stand():
    encoding = words_of("a  bc+\U0001f600")
    assert encoding["offset_mapping"] == [(0, 1), (3, 5), (5, 6), (6, 7)]
    assert len(encoding["input_ids"]) == 4
