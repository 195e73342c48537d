"""From token ids to logits. Read `sharing`, `layers`, `encoder`, `heads` and `model`, in this order.

`lean/` has the training step with its gradient written out, `hf/` the folders that transformers opens, `cost` what a
model costs in parameters, operations and bytes.
"""
