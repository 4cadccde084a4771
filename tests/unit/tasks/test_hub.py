import pytest

from agon.errors import DataError
from agon.tasks.hub import load_hub


@pytest.mark.parametrize("name", ["json", "csv", "parquet", "pandas"])
def test_a_reader_of_the_library_is_no_data_set_whatever_lies_in_the_working_folder(tmp_path, monkeypatch, name):
    (tmp_path / "private.json").write_text('{"question": "1+1", "answer": "2"}\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"'{name}' is a file format, and no data set of the Hub"):
        load_hub(name, None, "train")


def test_a_folder_of_that_name_is_not_read_in_the_place_of_the_data_set(tmp_path, monkeypatch):
    (tmp_path / "openai" / "gsm8k").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"'openai/gsm8k' is a Hub data set's name and a folder here"):
        load_hub("openai/gsm8k", "main", "train")
