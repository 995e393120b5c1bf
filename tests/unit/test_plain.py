"""trireme/plain.py: what a terminal is shown of what others have written."""

import pytest

from trireme.plain import in_a_line, plain

CODES = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))


@pytest.mark.parametrize("code", CODES, ids=hex)
def test_what_turns_the_direction_of_text_is_left_out(code):
    assert plain(f"a{chr(code)}b") == in_a_line(f"a{chr(code)}b") == "ab"


@pytest.mark.parametrize(
    "text", ["ü ✓ █▌ … “x” \u2009\u2060 \u0623\u0644\u0641 \u05d0 模型", "a\tb\nc", ""]
)
def test_letters_of_all_languages_stay(text):
    assert plain(text) == text
