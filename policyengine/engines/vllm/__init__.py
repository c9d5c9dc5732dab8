"""vLLM: policies as a batch logits processor.

`processor` is the class that an artifact derives from. `v1` and `v2` follow the requests of a model runner, `rows` what
policies do to a step's rows, whichever runner has put them together (`row`: one request; `memo`: places seen before).
`edits` is what a step does to the logits: gathered there and in `steering`, written by `kernel_host` or, on a device,
by one kernel (`kernel_plan`, `kernel_tables`, `kernel_triton` and `kernel_torch`, its definition). `params` checks a
request in the API process, `vocabulary` gives the model's tokens as bytes; `refusals`, `guard` and `doctor*` say where
policies would not hold.
"""
