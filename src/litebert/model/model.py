"""`Model`: an encoder with one head, from token ids to named outputs; and the way from and to folders."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from litebert.config import NO_EMBEDDING, Head, ModelConfig
from litebert.errors import RequestError
from litebert.hub import resolve
from litebert.model.encoder import Encoder
from litebert.model.head_kinds import HEADS
from litebert.model.heads import AnswerableSpanHead, Beam, ReplacedTokenHead, SentenceEmbeddingHead, build_head
from litebert.model.hf.checkpoint import fit_tensors, read_config, read_folder, write_folder
from litebert.model.layers import gather_positions
from litebert.presets import PRESETS

if TYPE_CHECKING:
    from litebert.text.tokenizer import Tokenizer

__all__ = ["Model", "ModelOutput", "to_arrays"]


@dataclass(frozen=True)
class ModelOutput:
    """The outputs of a model, under the names that transformers uses. What its head does not make is None."""

    last_hidden_state: Tensor | None = None  # (batch, tokens, H)
    pooler_output: Tensor | None = None  # (batch, H); (batch, k, H) of packed rows
    logits: Tensor | None = None  # (batch, labels), (batch, options), (batch, tokens, labels or vocabulary)
    prediction_logits: Tensor | None = None  # (batch, tokens, vocabulary), or (masked tokens, vocabulary)
    sop_logits: Tensor | None = None  # (batch, 2); (batch, k, 2) of packed rows
    replaced_logits: Tensor | None = None  # (batch, tokens)
    start_logits: Tensor | None = None  # (batch, tokens)
    end_logits: Tensor | None = None  # (batch, tokens)
    answerable_logits: Tensor | None = None  # (batch,)
    beam: Beam | None = None
    embedding: Tensor | None = None  # (batch, H); (batch, k, H) of packed rows
    hidden_states: tuple[Tensor, ...] | None = None  # after each layer, where they were asked for

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the head made, as NumPy arrays by the names that an ONNX file has for them; numbers are fp32."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        named["sentence_embedding"], beam = named.pop("embedding"), named.pop("beam")
        del named["hidden_states"]
        if beam is not None:
            named |= beam._asdict()
        made = {name: tensor.detach().cpu() for name, tensor in named.items() if tensor is not None}
        return {name: (one.float() if one.is_floating_point() else one).numpy() for name, one in made.items()}


class Model(nn.Module):
    """An ALBERT or BERT encoder with one head.

    >>> model = Model(ModelConfig(vocab_size=99, hidden_size=64, num_heads=2, intermediate_size=128, num_layers=2))
    >>> model(torch.tensor([[2, 17, 42, 3]])).last_hidden_state.shape
    torch.Size([1, 4, 64])
    """

    def __init__(self, config: ModelConfig, head: Head = "none") -> None:
        super().__init__()
        self.config = config
        self.head: Head = head
        self.encoder = Encoder(config, pooler=HEADS[head].pools)
        self.heads = build_head(config, head)
        self.initialize()

    def add_replaced_head(self) -> None:
        """Add a head that says of every token whether it was replaced: a part of training that no folder holds."""
        self.heads["replaced"] = ReplacedTokenHead(self.config)

    @property
    def training_tensors(self) -> frozenset[str]:
        """Names of the tensors that only training needs: a checkpoint keeps them beside its model folder."""
        return frozenset(name for name in self.state_dict() if name.startswith("heads.replaced."))

    @torch.no_grad()
    def initialize(self, only: Collection[str] | None = None) -> None:
        """Draw fresh weights, for the modules named or for all: normal, cut at two deviations; biases 0, norms 1."""
        for name, module in self.named_modules():
            if only is None or name in only:
                _initialize(module, self.config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        sequence_starts: Tensor | None = None,
        masked_positions: Tensor | None = None,
        start_positions: Tensor | None = None,
        answer_mask: Tensor | None = None,
        find_replaced: bool = False,
        depth: int | None = None,
        stop_after: int | None = None,
        output_hidden_states: bool = False,
    ) -> ModelOutput:
        """Run the model on ids (batch, tokens); a multiple-choice head takes (batch, options, tokens).

        - `sequence_ids` (batch, tokens) packs several sequences into a row: numbered from 1, padding 0.
          `sequence_starts` (batch, k), padded with -1, says where they begin, for heads that summarise a sequence.
        - `masked_positions` (batch, k), padded with -1, asks for predictions there alone: `prediction_logits` is then
          (masked tokens, vocabulary).
        - `start_positions` (batch,) are gold starts (NO_LABEL where none is known) and `answer_mask` (batch, tokens)
          the tokens that may hold an answer, for SQuAD 2.0.
        - `find_replaced` also asks of every token whether it was replaced; for a model that `add_replaced_head` was
          called on. All tokens then have last states.
        - `depth` runs shared layers another number of times than the model's own.
        - `stop_after` gives what the head says after so many layers.
        - `output_hidden_states` keeps the states after every layer, for the head that makes a vector of a text.
        """
        inputs = (input_ids, attention_mask, token_type_ids)
        call = {"position_ids": position_ids, "sequence_ids": sequence_ids, "depth": depth, "stop_after": stop_after}
        states: tuple[Tensor, ...] | None = None
        match self.head:
            # Heads that need a few positions only: the last layer computes no others.
            case "pretraining" | "masked-lm":
                return self._predict_masked(*inputs, sequence_starts, masked_positions, find_replaced, call)
            case "sequence-classification":
                pooled = self._pooled(*inputs, starts=sequence_starts, **call)  # (batch, H)
                return ModelOutput(pooler_output=pooled, logits=self.heads["classifier"](pooled))
            case "multiple-choice":
                flat = [None if x is None else x.flatten(0, 1) for x in inputs]  # (batch · options, tokens)
                pooled = self._pooled(*flat, depth=depth, stop_after=stop_after)  # (batch · options, H)
                logits = self.heads["classifier"](pooled)  # (batch · options, 1)
                return ModelOutput(pooler_output=pooled, logits=logits.view(input_ids.shape[:2]))
            case "sentence-embedding" if output_hidden_states:
                states = tuple(self.encoder.passes(*inputs, sequence_ids=sequence_ids, depth=depth))
                hidden = states[-1]
            case _:
                hidden = self.encoder(*inputs, **call)  # (batch, tokens, H)
        match self.head:
            case "none":
                return ModelOutput(hidden, pooler_output=self.encoder.pool(_first(hidden, sequence_starts)))
            case "sentence-embedding":
                vectors = self._embed(hidden, attention_mask, sequence_ids, sequence_starts)
                return ModelOutput(hidden, embedding=vectors, hidden_states=states)
            case "token-classification":
                return ModelOutput(hidden, logits=self.heads["classifier"](hidden))
            case "question-answering":
                start, end = self.heads["spans"](hidden).unbind(-1)
                return ModelOutput(hidden, start_logits=start, end_logits=end)
            case _:
                candidates = attention_mask if answer_mask is None else answer_mask
                return self._find_answer(hidden, start_positions, candidates)

    def _pooled(self, *inputs: Tensor | None, starts: Tensor | None = None, **call: Any) -> Tensor:
        """The pooled state of each sequence; the last layer computes the states of their first tokens alone."""
        input_ids = inputs[0]
        assert input_ids is not None
        keep = input_ids.new_zeros(input_ids.shape[0], 1) if starts is None else starts.clamp(min=0)
        states = self.encoder(*inputs, keep=keep, **call)
        return self.encoder.pool(states[:, 0] if starts is None else states)

    def _embed(
        self, hidden: Tensor, attention_mask: Tensor | None, sequence_ids: Tensor | None, starts: Tensor | None
    ) -> Tensor:
        """The vector of each row, or of each sequence of packed rows, whose starts say how many a row may hold."""
        head = self.heads["embedding"]
        assert isinstance(head, SentenceEmbeddingHead)
        if sequence_ids is None:
            return head(hidden, attention_mask)  # type: ignore[no-any-return]
        num_sequences = int(sequence_ids.max()) if starts is None else starts.shape[1]
        return head.embed_packed(hidden, sequence_ids, num_sequences)

    def _predict_masked(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        starts: Tensor | None,
        masked_positions: Tensor | None,
        find_replaced: bool,
        call: dict[str, Any],
    ) -> ModelOutput:
        """Predict tokens, at the masked positions alone if they are given, and in pretraining the sentence order."""
        inputs = (input_ids, attention_mask, token_type_ids)
        replaced = None
        if masked_positions is None or find_replaced:
            hidden = self.encoder(*inputs, **call)
            first, masked, complete = _first(hidden, starts), hidden, hidden
            if masked_positions is not None:  # (masked tokens, H)
                masked = gather_positions(hidden, masked_positions.clamp(min=0))[masked_positions >= 0]
            if find_replaced:
                replaced = self.heads["replaced"](hidden)  # (batch, tokens)
        else:
            begin = input_ids.new_zeros(input_ids.shape[0], 1) if starts is None else starts.clamp(min=0)
            keep = torch.cat([begin, masked_positions.clamp(min=0)], dim=1)  # (batch, starts + masked)
            hidden = self.encoder(*inputs, keep=keep, **call)  # (batch, starts + masked, H)
            first = hidden[:, 0] if starts is None else hidden[:, : begin.shape[1]]
            masked, complete = hidden[:, begin.shape[1] :][masked_positions >= 0], None  # (masked tokens, H)
        predictions = self.heads["masked_lm"](masked, self.encoder.embeddings.words.weight)
        if self.head == "masked-lm":
            return ModelOutput(complete, logits=predictions, prediction_logits=predictions, replaced_logits=replaced)
        pooled = self.encoder.pool(first)
        sop_logits = self.heads["sentence"](pooled)
        return ModelOutput(
            complete, pooled, prediction_logits=predictions, sop_logits=sop_logits, replaced_logits=replaced
        )

    def _find_answer(self, hidden: Tensor, start_positions: Tensor | None, candidates: Tensor | None) -> ModelOutput:
        """SQuAD 2.0: starts, ends given a start (the gold one, or the likeliest), whether there is an answer."""
        head = self.heads["answerable_spans"]
        assert isinstance(head, AnswerableSpanHead)
        start = head.start_logits(hidden, candidates)
        answerable = head.answerable_logits(hidden, start)
        beam = head.search(hidden, start, candidates) if start_positions is None else None
        given = start.argmax(-1) if start_positions is None else start_positions.clamp(min=0)
        end = head.end_logits(hidden, given[:, None], candidates).squeeze(1)
        return ModelOutput(hidden, start_logits=start, end_logits=end, answerable_logits=answerable, beam=beam)

    @classmethod
    def read_config(cls, name: str | Path, *, revision: str | None = None) -> ModelConfig:
        """The configuration of a folder, a run, a hub model or a preset, without its weights."""
        if not Path(name).is_dir() and str(name) in PRESETS:
            return PRESETS[str(name)].config
        return read_config(resolve(name, revision))[0]

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        head: Head | None = None,
        *,
        labels: tuple[str, ...] | None = None,
        revision: str | None = None,
    ) -> "Model":
        """Open a folder, a run, a model of the Hugging Face hub, or a preset (with fresh weights).

        `head` asks for another head than the stored one. Tensors that the folder lacks are then drawn afresh and
        named in `model.fresh_tensors`.
        """
        if head is not None and head not in HEADS:
            raise RequestError(f"head must be one of {', '.join(HEADS)}, not {head!r}")
        changes: dict[str, Any] = {} if labels is None else {"labels": tuple(labels)}
        if not Path(name).is_dir() and str(name) in PRESETS:
            return cls(PRESETS[str(name)].config.updated(**changes), head or "none").eval()
        stored = read_folder(resolve(name, revision))
        wanted = head or stored.head
        if wanted != "sentence-embedding":
            changes |= NO_EMBEDDING
        config = stored.config.updated(**changes)
        tensors, fresh = fit_tensors(stored, config, wanted)
        with torch.device("meta"):
            model = cls(config, wanted)
        model.to_empty(device="cpu")
        model.load_state_dict(
            {name: torch.from_numpy(array) for name, array in tensors.items()}, strict=False, assign=True
        )
        model.initialize({name.rpartition(".")[0] for name in fresh})
        model.fresh_tensors = fresh
        return model.requires_grad_(True).eval()

    fresh_tensors: tuple[str, ...] = ()
    """Tensors that the opened folder did not have and that were drawn afresh."""

    def save_pretrained(
        self,
        folder: str | Path,
        tokenizer: "Tokenizer | None" = None,
        *,
        expand_sharing: bool = False,
        half: bool = False,
    ) -> Path:
        """Write a folder that transformers opens: config, weights, model card, manifest, and the tokenizer if given.

        Sharing that transformers cannot express (attention alone, feed-forward alone) is saved in our own form, unless
        `expand_sharing` writes every layer out in full: larger, and no longer tied together when trained there. `half`
        stores the weights as fp16.
        """
        tensors = to_arrays(self.state_dict())
        return write_folder(Path(folder), self.config, self.head, tensors, tokenizer, expand_sharing, half=half)


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Tensors as NumPy arrays in fp32, which is what folders hold."""
    return {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}


def _first(hidden: Tensor, starts: Tensor | None) -> Tensor:
    """States of the first tokens: (batch, H), or (batch, k, H) where the starts of packed sequences are given."""
    return hidden[:, 0] if starts is None else gather_positions(hidden, starts.clamp(min=0))


def _initialize(module: nn.Module, deviation: float) -> None:
    """Fresh weights for one module: a normal with this deviation, drawn again beyond two of them."""
    if isinstance(module, nn.LayerNorm):
        module.reset_parameters()
        return
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        module.weight[module.padding_idx].zero_()
    if isinstance(bias := getattr(module, "bias", None), nn.Parameter):
        nn.init.zeros_(bias)
