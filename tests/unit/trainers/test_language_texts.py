"""trainers/texts.py: texts with the columns of several forms are learnt by those of one."""

import pytest
import texts
from datasets import Dataset

MESSAGES = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Yes."}]
OTHER = [MESSAGES[0], {"role": "assistant", "content": "No."}]


def columns(row, *forms):
    return texts.in_form(Dataset.from_list([row]), *forms).column_names


def test_columns_of_other_forms_are_left_out():
    row = {"prompt": "?", "prompt_id": "1", "messages": MESSAGES}  # as ultrachat has them
    assert columns(row) == ["prompt_id", "messages"]
    row |= {"chosen": MESSAGES, "rejected": OTHER}  # as ultrafeedback has them
    assert columns(row) == ["prompt_id", "chosen", "rejected"]
    assert columns(row, (texts.MESSAGES, texts.TEXT)) == ["prompt_id", "messages"]
    assert columns(row, (texts.ASKED,)) == ["prompt", "prompt_id"]


def test_a_prompt_of_the_kind_of_its_answers_goes_with_them():
    row = {"prompt": "?", "chosen": "Yes.", "rejected": "No."}
    assert columns(row) == [*row]
    assert texts.learnt(row, "rejected") == {"prompt": "?", "completion": "No."}
    assert columns(row | {"prompt": MESSAGES[:1]}) == ["chosen", "rejected"]


def test_what_has_no_form_or_no_texts_is_said():
    with pytest.raises(texts.Unusable, match="need a column prompt and completion, not prompt"):
        columns({"prompt": "?"}, (texts.COMPLETED,))
    with pytest.raises(texts.Unusable, match="there are no texts; to measure by are those in"):
        texts.in_form(Dataset.from_dict({"text": []}))
