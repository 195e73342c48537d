"""`split_sentences`: running text of any language to sentences, by rules.

Pretraining and clean-up want sentences from gigabytes of text. So one regular expression finds the positions where a
sentence may end, and Python looks only at those.
"""

import re
from itertools import pairwise

__all__ = ["LONGEST_SENTENCE", "split_sentences"]

LONGEST_SENTENCE = 2000

_NARROW = ".!?…．‼⁇⁈⁉"
_WIDE = "。！？｡।॥؟۔։።፧။។"  # these end a sentence wherever they stand
_MARK = _NARROW + _WIDE
_CLOSE = r"\"'”’»)\]}_」』】》〉〕）］｣"
_OPEN = r"\"'“‘«(\[{_「『【《〈〔（［｢¿¡"
_CJK = "가-힣\u3005-\u3007\u3041-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_GAP = r"[^\S\n]"

# It begins with a plain set, which the engine looks for at full speed, and repeats possessively, from the first mark
# of a run only: so no text makes it go over the same characters again and again.
_CANDIDATE = re.compile(
    rf"""[{_MARK}\n](?:
        (?<=\n)\s*+
      | (?<![{_MARK}][{_MARK}])(?:
            [{_MARK}]*+(?P<closed>[{_CLOSE}]*+){_GAP}++
            (?P<loose>["”’)\]]{_GAP}++)?(?![,;)\]}}{_MARK}]|[{_CLOSE}]++(?:\n|\Z))(?=[{_OPEN}]*+(?P<next>\w?))
          | [{_MARK}]*+(?<=[{_WIDE}])(?P<wide>[{_CLOSE}]*+)(?![\s,;，、；)])
          | (?<=[{_CJK}].)[{_MARK}]*+(?P<tight>[{_CLOSE}]*+)(?=\w)
        )
    )""",
    re.VERBOSE,
)
_BREAK_TAG = re.compile(r"<[bB][rR]\s*/?>")
_LAST_MARK = re.compile(rf"[{_MARK}][{_CLOSE}\s]*\Z")

_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs mme mlle dr drs prof st ste gen col capt lt sgt cpl maj cmdr adm rev fr hon gov sen rep "  # noqa: SIM905
    "pres supt sr jr esq mt ft vs v cf viz e.g i.e al approx ca esp incl resp ed eds trans inc ltd co corp bros dept "
    "univ assn ave blvd rd bzw nr hr ph.d lit sra srta проф ул им рис см тыс".split()
)
_BEFORE_NUMBERS = frozenset(
    "no nos fig figs vol vols pp ch chap sec sect art op eq eqs tab pt pl bk jan feb mar apr jun jul aug sep sept oct "  # noqa: SIM905
    "nov dec lib ii iii iv vi vii viii ix xi xii стр гл".split()
)
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_]{1,2})*")
_NUMERAL = re.compile(r"\d|(?:[IVXLC]{2,}|[VX])\b")
_ENUMERATOR = re.compile(r"\W*(?:\d{1,4}|[^\W\d_]|[ivxlcIVXLC]+)\W*")
# After an abbreviation, these words tell a new sentence ("in the U.S. The law") from a name ("the U.S. Army").
_OPENING_WORD = re.compile(
    r"(?:A|An|And|After|All|Also|As|At|Because|But|By|During|Each|For|From|He|Her|Here|His|However|I|If|In|It|Its|Many"
    r"|Most|My|On|One|Our|She|Since|So|Some|That|The|Their|Then|There|These|They|This|Those|Thus|To|Under|We|What"
    r"|When|Where|While|With|You|Your)(?=[\s,'’])"
)
# What goes on after quoted speech that holds whole sentences: 「はい。」と言った, “네.”라고 말했다.
_SPEECH_GOES_ON = re.compile("[とてっなのをはがにもで]|이?라[고는며]|하[고며는]|했[다고]|[은는이가을를의] ")


class _StraightQuotes:
    """Tells opening from closing straight quotation marks: they take turns within a line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = 0
        self._open = False

    def one_closes_after(self, position: int) -> bool:
        """Whether the next quotation mark after this position, which never goes back, is a closing one."""
        line = self._text.rfind("\n", self._counted, position)
        if line >= 0:
            self._counted, self._open = line, False
        self._open ^= self._text.count('"', self._counted, position) % 2 == 1
        self._counted = position
        return self._open


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space around them.

    A blank line ends a sentence, and so does a single line break (or an HTML `<br>`), unless the text is hard-wrapped.
    Text wholly in lower case is cut before lower-case letters too. Only white space and `<br>` tags are lost. What
    would be longer than `LONGEST_SENTENCE` characters is cut at white space, if there is some: scripts without marks,
    or damaged text, give no endless sentence.

    >>> split_sentences("Dr. Who paid $3.50. “Why?” asked J. R. Smith… Nobody knew!")
    ['Dr. Who paid $3.50.', '“Why?” asked J. R. Smith…', 'Nobody knew!']
    >>> split_sentences("今天很好。我们走吧！재미있다.또 볼래요?")
    ['今天很好。', '我们走吧！', '재미있다.', '또 볼래요?']
    """
    if "<" in text:
        text = _BREAK_TAG.sub("\n", text)
    lines = text.splitlines()
    if len(lines) > 1:
        text = _join_wrapped([line.strip() for line in lines])
    lowercased = text.islower()
    quotes = _StraightQuotes(text)
    sentences: list[str] = []
    start = 0
    for candidate in _CANDIDATE.finditer(text):
        end = _end_of_sentence(candidate, start, lowercased, quotes)
        if end:
            _append(text[start:end].strip(), sentences)
            start = end
    _append(text[start:].strip(), sentences)
    return sentences


def _join_wrapped(lines: list[str]) -> str:
    """Join stripped lines: by a space where a paragraph was wrapped, by a line break where a line stands for itself.

    The lines before another line tell whether the document is wrapped: most of them are about equally long, most do
    not end with a mark, and the next ones often begin with a small letter (verse and lists begin with capitals). Then
    a line goes on in the next one if that begins with a small letter, or if its first word had no room on the line.
    """
    inner = [(line, after) for line, after in pairwise(lines) if line and after]
    lengths = sorted([len(line) for line, _ in inner])
    width = lengths[len(lengths) * 9 // 10] if len(inner) >= 3 else 0
    wrapped = (
        30 <= width <= 120
        and lengths[len(lengths) // 2] >= 0.8 * width
        and sum(after[0].islower() for _, after in inner) * 2 >= sum(after[0].isupper() for _, after in inner)
        and sum(_LAST_MARK.search(line, max(0, len(line) - 4)) is not None for line, _ in inner) * 2 <= len(inner)
    )
    if not wrapped:
        return "\n".join(lines)
    full = 0.85 * width
    pieces = []
    for line, after in pairwise([*lines, ""]):
        pieces.append(line)
        goes_on = line and after and (after[0].islower() or len(line) + len(after.split(None, 1)[0]) >= full)
        pieces.append(" " if goes_on else "\n")
    return "".join(pieces)


def _end_of_sentence(candidate: re.Match[str], start: int, lowercased: bool, quotes: _StraightQuotes) -> int:
    """Where the sentence from `start` ends, if it does at this candidate, or 0."""
    text, kind, mark = candidate.string, candidate.lastgroup, candidate.start()
    if kind is None:
        return candidate.end()
    end = candidate.end(kind)
    if kind == "next":
        end = candidate.end("closed")
        following = candidate["next"]
        if following.islower() and not lowercased and text[end - 1] not in _WIDE:
            return 0
        if candidate["closed"]:
            if following > "z" and _SPEECH_GOES_ON.match(text, candidate.end()):
                return 0
        elif text[mark] == "." and end == mark + 1 and _is_abbreviation(candidate, start):
            return 0
        loose = candidate["loose"]
        if loose and (loose[0] != '"' or quotes.one_closes_after(mark)):
            return candidate.end("loose")
        return end
    closed, after = candidate[kind], text[candidate.end() : candidate.end() + 1]
    if closed == '"' and not quotes.one_closes_after(mark):
        return candidate.start(kind)
    if closed and _SPEECH_GOES_ON.match(text, end):
        return 0
    if kind == "tight":
        run = text[mark : candidate.start(kind)]
        hangul = "가" <= after <= "힣"
        if "…" in run or (closed and hangul) or (run.startswith("..") and not hangul):
            return 0
        if run[-1] in ".．" and after < "\u3005" and not after.isdigit():
            return 0
    return end


def _is_abbreviation(candidate: re.Match[str], start: int) -> bool:
    """Whether the single dot of a candidate belongs to the word or number before it and does not end the sentence."""
    text, dot, after = candidate.string, candidate.start(), candidate.end()
    if dot == start:
        return False
    if dot - start <= 6 and _ENUMERATOR.fullmatch(text, start, dot):
        return True
    if text[dot - 1].isspace():
        return False  # tokenised text, where a dot by itself is no part of a word
    word = text[max(start, dot - 12) : dot].rsplit(None, 1)[-1].lstrip(_OPEN)
    lower = word.lower()
    if lower in _BEFORE_NUMBERS:
        return _NUMERAL.match(text, after) is not None
    if lower in _ABBREVIATIONS or ((len(word) == 1 or "." in word) and _INITIALS.fullmatch(word)):
        return lower != word.upper() and lower not in ("a.m", "p.m") and not _OPENING_WORD.match(text, after)
    return False


def _append(sentence: str, sentences: list[str]) -> None:
    """Append a sentence, in parts if it is too long; nothing if it is empty."""
    while len(sentence) > LONGEST_SENTENCE:
        head, *rest = sentence[:LONGEST_SENTENCE].rsplit(None, 1)
        cut = len(head) if rest else LONGEST_SENTENCE
        sentences.append(sentence[:cut])
        sentence = sentence[cut:].lstrip()
    if sentence:
        sentences.append(sentence)
