"""Sentences come out as a reader would cut them, nothing is lost, and no text takes long."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.text.sentences import LONGEST_SENTENCE, split_sentences
from tests.work import assert_linear

# In the examples a bar stands where a sentence ends; it is no part of the text.
ENGLISH = [
    "It rained.| We stayed in.",
    "Stop!| Who goes there?| Nobody answered…",
    "Mr. and Mrs. Smith met Dr. Jones on St. James Street.| They talked.",
    "Prof. Lee and Gen. Grant vs. Capt. Cook was the match.",
    "J. R. R. Tolkien wrote it.| C. S. Lewis read it.",
    "George W. Bush won.| He was from Texas.",
    "He lives in the U.S.| He likes it.| The U.S. Army is large.",
    "Fruit, e.g. apples, i.e. Malus, is good.| Nuts etc. are too.| We had bread etc.| Nobody ate.",
    "See Fig. 3 and No. 5 on pp. 12 of Vol. II for it.| Did he agree?| No.| I did not ask.",
    "It costs $3.50 in version 2.0.1.| That is 1.5 times more.",
    "On Jan. 5 we left.| We came back in Dec.| It was cold.",
    "The shop opens at 9 a.m. and closes at 5 p.m.| Everybody goes home.",
    "Apple Inc. Chicago agreed with Sons Ltd. London.| So did Acme Corp.| The rest did not.",
    "Write to john.doe@example.com or see https://example.com/a.b?c=d.| Thanks!",
    "Well... maybe not.| But then...| Perhaps yes.",
    '"Really?" he asked.| "Yes!"| "Come in," she said.| (He did.)| It was late.',
    "“I know.”| ‘You do?’| He did not [see below].| [He left.]",
    "She said: «Come here.»| He came.",
    "1. First do this.| 2. Then do that.| A. The third way.| IV. Rest.",
    "What?!| You cannot mean it!!!| I do...",
    "It was in 1999.| 20 people came.",
    "Use the file main.py or node.js here.| It works.",
    "It was developed by Media.Vision .| It cost $ 1 @.@ 1 billion in role @-@ playing damage .| The end .",
    'He said , " Stop . "| She did .| " Why ? " he asked .| ( He left . )| All was quiet .',
    'She wrote : " It was cold .| We left . "| So they did .| It was World War I .| Germany lost .',
    "great film.| i loved it!| see it with mr. smith, e.g. tomorrow.",
    "The word is _over._| It is done.",
    "Was it in Plan 9?| 7 of 10 say so.| 'Tis true.",
    "He met Rep. Adams of the Univ. of Ohio, dept. of law, et al.| They listened.",
    "He paused . . . and went on.| Then, nothing.",
]
KOREAN = [
    "오늘은 날씨가 좋다.| 내일은 비가 온다.",
    "밥 먹었어요?| 네, 먹었어요!| 고마워요.",
    "정말 재미있었다.|그런데 끝이 아쉽다.",
    "뭐야?|이게 끝이야!|진짜로?",
    "좋았다..|근데 길다",
    "3.1운동은 1919년에 일어났다.| 평점은 8.5점이다.",
    "ㅋㅋㅋ 너무 웃겨 ㅠㅠ",
    "이게 뭐야ㅋㅋㅋ 재밌다.| ㅋㅋ 또 볼래",
    "“안녕.”이라고 말했다.| 그는 갔다.",
    '"가자!"라고 외쳤다.| 모두 뛰었다.',
    '그는 "가자!" 하고 외쳤다.',
    "시간이 아깝다...| 다시는 안 본다.",
    "LG전자는 2.5% 올랐다.| KOSPI는 내렸다.",
    "1. 첫째로 시작한다.| 2. 다음으로 끝낸다.",
    "naver.com에서 봤다.| 좋더라.",
    "최고다!!| (진짜로.)| 추천합니다.",
]
CHINESE = [
    "今天天气很好。|我们去公园吧！|你去吗？",
    "他说：“我不去。”|然后走了。",
    "“真的吗？！”|她笑了。",
    "房间太小。|其他的都一般。。。。。。",
    "我……我不知道。|你呢？",
    "这本书很好!|值得一看.|推荐给大家?|当然",
    "1.接电源没有几分钟,热的不行.| 2.摄像头用不起来.",
    "硬盘不好.|2.键盘不错.",
    "圆周率是3.14。|版本是2.0！",
    "（他走了。）|【完了。】|《书》很好。",
    "他用 Windows 7。|iPhone 也不错。",
    '他说:"你好。"|然后走了。|"再见。"',
    "真的！？|是的！！！",
    "好吗？，他问。",
    "我看了 example.com 的网页。| 很好。",
]
JAPANESE = [
    "今日は晴れです。|明日は雨でしょう。",
    "「はい。」と彼は言った。|そして帰った。",
    "「行くの？」って聞いた。",
    "「はい。」|「いいえ。」|彼は笑った。",
    "すごい！|本当ですか？|はい｡",
    "彼は……黙っていた。|何も言わない。",
    "（笑っている。）|そうだ。",
    "価格は1.5倍です。|安い!|買おう",
    "『終わった。』と書いてある。|終わり。",
]
OTHERS = [
    "यह एक किताब है।| वह कहाँ है? |मैं नहीं जानता॥",
    "هل أنت بخير؟| نعم، شكرا.| مع السلامة!",
    "یہ کتاب ہے۔| وہ گھر ہے۔",
    "Սա գիրք է։| Նա տանն է։",
    "ሰላም ነው።| ደህና ነህ፧| አዎ።",
    "นี่คือหนังสือ ฉันชอบอ่านหนังสือ",
    "Это книга.| А. С. Пушкин жил там.| Он писал… и писал.",
    "¿Qué tal?| ¡Muy bien!| ¿Y tú?",
    "Τι κάνεις; Καλά.| Εσύ;",
    "Das kostet z.B. 3,50 Euro.| Über 1.000 kamen.| Äpfel auch.",
]


@pytest.mark.parametrize("example", ENGLISH + KOREAN + CHINESE + JAPANESE + OTHERS)
def test_examples(example: str) -> None:
    assert split_sentences(example.replace("|", "")) == [sentence.strip() for sentence in example.split("|")]


def test_lines_and_tags_end_sentences() -> None:
    assert split_sentences("A heading\n\nIt begins here\r\n\r\nand ends.") == [
        "A heading",
        "It begins here",
        "and ends.",
    ]
    assert split_sentences("milk\nbread\n- two eggs\n") == ["milk", "bread", "- two eggs"]
    assert split_sentences("no mark here<br /><br>Next one. <BR/> <brother>") == [
        "no mark here",
        "Next one.",
        "<brother>",
    ]
    assert split_sentences("") == split_sentences(" \n\t\n<br />") == []


def test_one_sentence_a_line() -> None:
    lines = [f"{word} sentence number {i} stands on a line of its own here." for i, word in enumerate("ABCDEF" * 3)]
    assert split_sentences("\n".join(lines)) == lines
    unmarked = [
        "two dogs run",
        "a woman in a red coat is waiting for the bus at the corner",
        "people eat",
        "a man sleeps",
    ]
    assert split_sentences("\n".join(unmarked * 5)) == unmarked * 5


BOOK = """CHAPTER I

It is a truth universally acknowledged, that a single man in possession
of a good fortune, must be in want of a wife. However little known the
feelings or views of such a man may be on his first entering a
neighbourhood, this truth is so well fixed in the minds of Mr.
Bennet and the others that he is considered the rightful property
of some one.

He sang of it:
Let us go then
You and I.
"""


def test_wrapped_text_is_joined_and_its_short_lines_are_not() -> None:
    sentences = split_sentences(BOOK)
    assert [sentence[:14] for sentence in sentences] == [
        "CHAPTER I",
        "It is a truth ",
        "However little",
        "He sang of it:",
        "Let us go then",
        "You and I.",
    ]
    assert sentences[2].endswith(
        "minds of Mr. Bennet and the others that he is considered the rightful property of some one."
    )


def test_wrapped_text_without_capitals() -> None:
    line = "这是一个很长的句子它在每一行的末尾都没有标点符号因为这一行已经满了所以"
    assert len(split_sentences("\n".join([line] * 5) + "完了。")) == 1


def test_verse_keeps_its_lines() -> None:
    verse = [
        "Shall I compare thee to a summer's day",
        "Thou art more lovely and more temperate",
        "Rough winds do shake",
    ]
    assert split_sentences("\n".join(verse * 3)) == verse * 3


def test_nothing_is_endless() -> None:
    words = split_sentences("word " * 1000)
    assert max(map(len, words)) <= LONGEST_SENTENCE
    assert set(" ".join(words).split()) == {"word"}
    assert [len(part) for part in split_sentences("ก" * 5000)] == [2000, 2000, 1000]


PIECES = [
    "A",
    "b",
    "Mr",
    "U.S",
    "가",
    "다",
    "中",
    "と",
    "5",
    "ก",
    *" \n\t\r\u2028.!?…。！？\"'”」)(“「<,;",
    "<br />",
    "<br",
    "  ",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join)))
def test_only_white_space_and_break_tags_are_lost(text: str) -> None:
    sentences = split_sentences(text)
    kept = re.sub(r"<[bB][rR]\s*/?>", "", text)
    assert "".join("".join(sentences).split()) == "".join(kept.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


HOSTILE = [
    ".",
    '"',
    " ",
    "\n",
    "A.",
    "?!",
    ". ",
    '. " ',
    "。",
    "가.",
    "A. ",
    "<br ",
    "a.\t",
    '。"',
    "…가",
    "x\n",
    "가.)",
    "a",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = unit * (size // len(unit))
        return lambda: split_sentences(text)

    assert_linear(work, 25_000)
