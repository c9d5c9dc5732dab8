"""vLLM: policies as a batch logits processor.

`processor` is the class that an artifact derives from, `v1` the state of a running batch, `edits` what a step does to
the logits, `params` the check of a request in the API process, `vocabulary` the model's tokens as bytes.
"""
