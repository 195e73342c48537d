"""What the field used before BERT, on plain lists of texts: a ladder of baselines for every model to be measured by."""
