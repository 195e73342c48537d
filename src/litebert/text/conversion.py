"""`spiece.model` as a `tokenizer.json`: the same ids from the tokenizers library, and so from AutoTokenizer.

What cannot be said exactly there: which of two segmentations with (nearly) equal scores wins, because sentencepiece
adds up scores of a whole sentence in single precision; and the rule for numbers with commas: here such pieces always
lose.
"""

from typing import TYPE_CHECKING

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from litebert.errors import RequestError
from litebert.text.cleanup import mark_ranges
from litebert.text.engine import template

if TYPE_CHECKING:
    from litebert.text.spiece import SpieceEngine

__all__ = ["convert"]

# What str.split() takes for white space.
_WHITE_SPACE = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# A sigma that ends a word, as str.lower() finds it: letters count, and marks and apostrophes between them do not.
_LETTER = r"[\p{Lu}\p{Ll}\p{Lt}]"
_NO_LETTER = r"[\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'’‘.:·․‧՟״]*"
_LAST_SIGMA = rf"{_LETTER}{_NO_LETTER}\KΣ(?!{_NO_LETTER}{_LETTER})"


def convert(engine: "SpieceEngine") -> tokenizers.Tokenizer:
    """Say the same in the words of the tokenizers library."""
    spec = engine.proto.trainer_spec
    if spec.model_type != spec.UNIGRAM or spec.byte_fallback:
        raise RequestError("only unigram models without bytes for unknown characters can be written as tokenizer.json")
    scores = [(piece.piece, piece.score) for piece in engine.proto.pieces]
    replaced = engine.number_commas | engine.unused_pieces
    for token in sorted(replaced, key=lambda token: len(engine.piece(token))):  # parts before what they make up
        # Just below what stands for it: always beaten, without moving the lowest score, on which that of <unk> rests.
        rest = sum(scores[part][1] for part in replaced[token])
        scores[token] = (scores[token][0], min(scores[token][1], rest) - 0.001)
    unknown = spec.unk_id
    backend = tokenizers.Tokenizer(models.Unigram(scores, unk_id=unknown, byte_fallback=False))
    backend.normalizer = normalizers.Sequence(_steps(engine))
    prepend = "always" if engine.proto.normalizer_spec.add_dummy_prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend)
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=prepend)
    backend.post_processor = template(engine.id_of("[CLS]"), engine.id_of("[SEP]"))
    backend.add_special_tokens(
        [AddedToken(engine.piece(token), normalized=False, special=True) for token in engine.control_ids]
    )
    return backend


def _steps(engine: "SpieceEngine") -> list[normalizers.Normalizer]:
    """Clean-up, then what the model's own table does, then single spaces."""
    steps = [normalizers.Replace(Regex(f"[{_WHITE_SPACE}]+"), " "), normalizers.Strip()]
    if not engine.clean_up.keep_accents:
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(f"[{mark_ranges()}]"), "")]
    if engine.clean_up.do_lower_case:
        steps += [normalizers.Replace(Regex(_LAST_SIGMA), "ς"), normalizers.Lowercase()]
    table = engine.proto.normalizer_spec.precompiled_charsmap
    if engine.composes:
        steps.append(normalizers.NFKC())  # Precompiled alone leaves Korean syllables in pieces, and loses some accents
    if table:
        steps.append(normalizers.Precompiled(table))
    return [*steps, normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
