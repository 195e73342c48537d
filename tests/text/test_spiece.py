"""SentencePiece as Google uses it: the same ids, places in the original text, and the same in AutoTokenizer."""

import json
import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from sentencepiece import sentencepiece_model_pb2 as protocol

from litebert.errors import RequestError
from litebert.text.cleanup import CleanUp
from litebert.text.engine import TokenizersEngine
from litebert.text.spiece import SpieceEngine
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary
from tests.conftest import make_sentences, need
from tests.text import oracle
from tests.text.test_tokenizer import PIECES
from tests.work import assert_linear

NUMBERS = ["In 1990, 1999, and 2004,", "1984,1984,1984", "x1990, 06,5,04,", "82,97,6,6", ",", "1,", "², ①, ٣,"]
WORDS = ["Café", "the", "１９９０，", "한국어", "밥을", "\u1112\u1161\u11ab", "今天", "½", "ﬁ", "ﷺ", "e\u0301\u0316",
         "👨‍👩‍👧", "שלום", "\u202eسلام", "\x00", "\ud800", "\u200b", "\ufeff", "…", "㎏", "ΑΣ", "1990,",
         "[MASK]", "[mask]", "<unk>", "¨", "\u0301", "(", '"', "▁"]  # fmt: skip
GAPS = ["", " ", "  ", "\n", "\u3000", "\xa0", "\x1c", "\u2028", "\t"]
TEXTS = st.one_of(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)).map("".join), max_size=8).map("".join),
    st.text(st.characters(exclude_categories=[]), max_size=30),
)
PROPERTY = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def engine_of(tokenizer: Tokenizer) -> SpieceEngine:
    engine = tokenizer._engine
    assert isinstance(engine, SpieceEngine)
    return engine


def rows_of(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    ids, counts = tokenizer.encode_plain(texts)
    assert counts.sum() == len(ids)
    return [row.tolist() for row in np.split(ids, np.cumsum(counts)[:-1])]


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    file = tmp_path_factory.mktemp("wordpiece") / "vocab.txt"
    file.write_text("\n".join([*PIECES, "[", "]", "mask", "caf", "##e", "<", "pad", ">"]), encoding="utf-8")
    return Tokenizer.from_pretrained(file)


@pytest.fixture(scope="module")
def folder(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    small_tokenizer.write_files(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    transformers = need("transformers")

    return transformers.AutoTokenizer.from_pretrained(folder)


def test_google_would_give_the_same_ids(small_tokenizer: Tokenizer) -> None:
    proto: Any = protocol.ModelProto.FromString(engine_of(small_tokenizer).model)  # type: ignore[attr-defined]
    for piece in proto.pieces:  # Google's vocabulary uses pieces such as "1990,", ours does not
        piece.type = type(piece).NORMAL if piece.type == type(piece).UNUSED else piece.type
    processor = SentencePieceProcessor(model_proto=proto.SerializeToString())
    tokenizer = Tokenizer(SpieceEngine(proto.SerializeToString(), CleanUp()))
    texts = [*NUMBERS, *make_sentences(200, seed=5), "", " ", *oracle.fuzz(2000)]
    found = rows_of(tokenizer, texts)
    assert found == [oracle.encode(processor, text) for text in texts]
    commas = engine_of(tokenizer).number_commas
    raw = [processor.EncodeAsIds(oracle.clean(text)) for text in texts]
    assert sum(i in commas for ids in raw for i in ids) > 50  # the rule was put to the test
    assert not any(i in commas for ids in found for i in ids)


def test_the_rule_for_numbers_may_give_the_unknown_piece(small_tokenizer: Tokenizer) -> None:
    proto: Any = protocol.ModelProto.FromString(engine_of(small_tokenizer).model)  # type: ignore[attr-defined]
    for piece in proto.pieces:
        piece.piece = {"▁captain": "▁9876", "▁king": "9876,", "▁boat": "▁9876,"}.get(piece.piece, piece.piece)
    tokenizer = Tokenizer(SpieceEngine(proto.SerializeToString(), CleanUp()))
    assert [span.piece for span in tokenizer.spans("9876, a9876,")] == ["▁9876", ",", "▁a", "9876", ","]
    assert [(span.begin, span.end) for span in tokenizer.spans("9876, a9876,")] == [
        (0, 4), (4, 5), (6, 7), (7, 11), (11, 12),
    ]  # fmt: skip
    assert rows_of(tokenizer, ["a9876,"])[0][1] == tokenizer.unknown_id
    processor = SentencePieceProcessor(model_proto=proto.SerializeToString())
    texts = ["9876, a9876,", "x9876,1", "9876,"]
    assert rows_of(tokenizer, texts) == [oracle.encode(processor, text) for text in texts]


def test_a_model_that_puts_no_space_first(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = need("transformers")

    proto: Any = protocol.ModelProto.FromString(engine_of(small_tokenizer).model)  # type: ignore[attr-defined]
    proto.normalizer_spec.add_dummy_prefix = False
    tokenizer = Tokenizer(SpieceEngine(proto.SerializeToString(), CleanUp()))
    assert show(tokenizer, "the river in 1990, the") == [
        ("the", "the"), ("▁river", "river"), ("▁in", "in"), ("▁19", "19"), ("9", "9"), ("0", "0"), (",", ","),
        ("▁the", "the"),
    ]  # fmt: skip
    tokenizer.write_files(tmp_path)
    texts = ["the river crossed", "한국어를 공부합니다"]
    found = transformers.AutoTokenizer.from_pretrained(tmp_path)(texts, add_special_tokens=False)["input_ids"]
    assert found == rows_of(tokenizer, texts)
    proto.trainer_spec.model_type = proto.trainer_spec.BPE
    with pytest.raises(RequestError, match="only unigram models"):
        Tokenizer(SpieceEngine(proto.SerializeToString(), CleanUp())).write_files(tmp_path)


def show(tokenizer: Tokenizer, text: str) -> list[tuple[str, str]]:
    return [(span.piece, text[span.begin : span.end]) for span in tokenizer.spans(text)]


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("Café au lait", ["Café", "a", "u", "", "l", "a", "i", "t"]),
        (" ＡＢＣ", ["Ａ", "Ｂ", "Ｃ"]),
        ("한국어 밥", ["", "한", "국", "어", "", "밥"]),
        ("\u1112\u1161\u11ab국", ["", "\u1112\u1161\u11ab", "국"]),
        ("½ ﬁx", ["½", "½", "½", "ﬁ", "ﬁ", "x"]),
        ("👨‍👩‍👧 ok", ["", "👨‍👩‍👧", "", "o", "k"]),
        ("x [MASK] y", ["", "x", "[MASK]", "", "y"]),
        ("In 1990,  the\x00King", ["In", "19", "9", "0", ",", "the", "\x00", "K", "i", "n", "g"]),
        ("\ud800e\u0301\u0316a", ["", "e", "a"]),
        ("", []),
        (" \u0301\u200b ", []),
    ],
)
def test_places_in_examples(small_tokenizer: Tokenizer, text: str, slices: list[str]) -> None:
    assert [text[span.begin : span.end] for span in small_tokenizer.spans(text)] == slices


def check_spans(tokenizer: Tokenizer, text: str) -> set[int]:
    """Check what holds for any tokenizer, and give the indices that some piece stands for."""
    spans = tokenizer.spans(text)
    expected = tokenizer.encode([text], max_length=10_000).input_ids[0, 1:-1].tolist()
    assert [span.id for span in spans] == expected
    begins = [span.begin for span in spans]
    assert begins == sorted(begins)
    assert all(0 <= span.begin <= span.end <= len(text) for span in spans)
    for span in spans:
        if span.id != tokenizer.unknown_id:
            assert span.piece == tokenizer.piece(span.id)
    return {index for span in spans for index in range(span.begin, span.end)}


@given(text=TEXTS)
@PROPERTY
def test_places(small_tokenizer: Tokenizer, text: str) -> None:
    covered = check_spans(small_tokenizer, text)
    processor = SentencePieceProcessor(model_proto=engine_of(small_tokenizer).model)
    for index, character in enumerate(text):
        if processor.normalize(oracle.clean(character)).strip("▁"):
            assert index in covered, (text, index)
        if character.isspace():
            assert index not in covered or character in "\x1c\x85", (text, index)
    for span in small_tokenizer.spans(text):
        letters = span.piece.strip("▁")
        if letters.isascii() and span.id not in small_tokenizer.special_ids:
            # A character that becomes several may be shared by several pieces.
            assert letters in processor.normalize(oracle.clean(text[span.begin : span.end])), (text, span)


@given(text=TEXTS)
@PROPERTY
def test_places_of_word_pieces(wordpiece: Tokenizer, text: str) -> None:
    covered = check_spans(wordpiece, text)
    for index, character in enumerate(text):
        if character.isascii() and character.isalnum():
            assert index in covered, (text, index)
        if character == " ":
            assert index not in covered


def test_places_of_word_pieces_in_an_example(wordpiece: Tokenizer) -> None:
    text = "Unfair Cafés 今天 [MASK]"
    slices = [text[span.begin : span.end] for span in wordpiece.spans(text)]
    assert slices == ["Un", "fair", "Caf", "é", "s", "今", "天", "[MASK]"]


def test_special_tokens_in_text(small_tokenizer: Tokenizer, wordpiece: Tokenizer) -> None:
    for tokenizer in (small_tokenizer, wordpiece):
        encoded = tokenizer.encode(["[MASK] the[MASK]"]).input_ids[0].tolist()
        assert encoded.count(tokenizer.mask_id) == 2
        assert encoded[1] == tokenizer.mask_id
        special = set(tokenizer.special_ids) - {tokenizer.unknown_id}
        assert special.isdisjoint(tokenizer.encode_plain(["[MASK] [CLS] <pad>", "[SEP][PAD]"])[0].tolist())
    assert small_tokenizer.unknown_id in small_tokenizer.encode(["<unk>"]).input_ids
    cased = Tokenizer(SpieceEngine(engine_of(small_tokenizer).model, CleanUp(do_lower_case=False)))
    assert set(range(5)) - {1} == set(cased.special_ids) - set(rows_of(cased, ["[MASK][CLS] [SEP] <pad>"])[0])


def test_saved_files(small_tokenizer: Tokenizer, folder: Path, tmp_path: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"spiece.model", "tokenizer.json", "tokenizer_config.json"}
    assert (folder / "spiece.model").read_bytes() == engine_of(small_tokenizer).model
    again = Tokenizer.from_pretrained(folder)
    assert engine_of(again).clean_up == CleanUp()
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    content = json.loads((changed / "tokenizer.json").read_text())
    content["normalizer"] = None
    (changed / "tokenizer.json").write_text(json.dumps(content))
    theirs_counts = Tokenizer.from_pretrained(changed)
    assert isinstance(theirs_counts._engine, TokenizersEngine)
    assert theirs_counts.unknown_id in theirs_counts.encode(["THE"]).input_ids
    (changed / "tokenizer.json").unlink()
    assert engine_of(Tokenizer.from_pretrained(changed)).model == engine_of(small_tokenizer).model
    again.write_files(tmp_path)
    for name in ("spiece.model", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_the_switches_are_saved(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = need("transformers")

    kept = CleanUp(do_lower_case=False, keep_accents=True)
    Tokenizer(SpieceEngine(engine_of(small_tokenizer).model, kept)).write_files(tmp_path)
    again = Tokenizer.from_pretrained(tmp_path)
    assert engine_of(again).clean_up == kept
    texts = ["The Café", "the cafe\u0301", "\u1112\u1161\u11ab국", "ＡＢ ﬁ"]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)(texts, add_special_tokens=False)[
        "input_ids"
    ] == rows_of(again, texts)


def test_auto_tokenizer_gives_the_same_ids(small_tokenizer: Tokenizer, theirs: Any) -> None:
    engine = engine_of(small_tokenizer)
    texts = [*make_sentences(500, seed=9), *oracle.fuzz(2000)]
    texts += ["ΑΣ ΑΣΑ Σ ΑΣ'Α 한Σ", "한국어를 공부합니다", "[MASK] x [CLS]"]
    found = [row[1:-1] for row in theirs(texts)["input_ids"]]
    reasons: Counter[str] = Counter()
    for text, ours, other in zip(texts, engine.encode(texts), found, strict=True):
        if ours != other:
            reasons[oracle.explain(engine.model, engine.number_commas, text, ours, other)] += 1
    assert not reasons["unexplained"]
    assert reasons.total() <= 0.005 * len(texts)


@pytest.mark.parametrize("max_length", [4, 7, 16, 33])
def test_auto_tokenizer_cuts_the_same_way(small_tokenizer: Tokenizer, theirs: Any, max_length: int) -> None:
    texts = [text.replace(",", "") for text in make_sentences(60, seed=2)] + ["", "the", "[MASK] the"]
    for pairs in (None, texts[::-1], [text[:20] for text in texts[5:] + texts[:5]]):
        ours = small_tokenizer.encode(texts, pairs, max_length)
        expected = theirs(texts, pairs, truncation=True, max_length=max_length, padding=True, return_tensors="np")
        for name in ("input_ids", "attention_mask", "token_type_ids"):
            assert np.array_equal(getattr(ours, name), expected[name]), (name, pairs)


def test_decoding(small_tokenizer: Tokenizer) -> None:
    ids = small_tokenizer.encode(["The River crossed 밥을 (2000,"]).input_ids[0].tolist()
    assert small_tokenizer.decode(ids) == "the river crossed 밥을 (2000,"
    for wrong in (-1, 400):
        with pytest.raises(RequestError, match=f"no id {wrong}; ids are 0 to 399"):
            small_tokenizer.decode([wrong])


HOSTILE = {
    "halves": "\ud800",
    "long decompositions": "\ufdfa",
    "no spaces": "theriver1990,",
    "zeros": "\x00",
    "right to left": "שלום\u202e سلام ",
    "emoji": "👨‍👩‍👧🇰🇷",
    "dots": ".",
    "marks": "\u0301\u0316",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("method", ["encode", "encode_plain", "spans"])
def test_anything_takes_linear_time(small_tokenizer: Tokenizer, wordpiece: Tokenizer, method: str, name: str) -> None:
    for tokenizer in (small_tokenizer, wordpiece):

        def work(size: int, tokenizer: Tokenizer = tokenizer) -> Callable[[], object]:
            text = HOSTILE[name] * (size // len(HOSTILE[name]))
            return lambda: getattr(tokenizer, method)(text if method == "spans" else [text])

        assert_linear(work, 5000 if method == "spans" else 25_000)


def test_a_tokenizer_travels_and_is_saved(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(small_tokenizer))
    assert rows_of(again, NUMBERS) == rows_of(small_tokenizer, NUMBERS)
    small_tokenizer.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "manifest.json").exists()
    assert Tokenizer.from_pretrained(tmp_path / "saved").id_of("▁the") == small_tokenizer.id_of("▁the")
    assert repr(small_tokenizer) == "Tokenizer(400 pieces, SpieceEngine)"
    with pytest.raises(RequestError, match="in a list"):
        small_tokenizer.encode("the river")  # type: ignore[arg-type]


def test_a_file_is_read_with_the_settings_beside_it(tmp_path: Path) -> None:
    cased = train_vocabulary(make_sentences(1000), VocabularyConfig(vocab_size=400, coverage=1.0, do_lower_case=False))
    cased.write_files(tmp_path)
    assert rows_of(Tokenizer.from_pretrained(tmp_path / "spiece.model"), ["The Café"]) == rows_of(cased, ["The Café"])


def test_settings_of_others_do_not_travel(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A folder of transformers names its own class, which would not read our tokenizer.json as it stands."""
    small_tokenizer.write_files(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "AlbertTokenizer", "added_tokens_decoder": {}, "do_lower_case": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "out").mkdir()
    Tokenizer.from_pretrained(tmp_path).write_files(tmp_path / "out", max_length=128)
    written = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "added_tokens_decoder" not in written
    assert written["model_max_length"] == 128


def test_places_are_the_same_in_both_engines(small_tokenizer: Tokenizer, folder: Path) -> None:
    other = Tokenizer.from_pretrained(folder / "tokenizer.json")
    for text in ["The  river crossed", " 한국어를 공부합니다 ", "a café (small)"]:
        assert [vars(span) for span in other.spans(text)] == [vars(span) for span in small_tokenizer.spans(text)]
