"""TensorRT-LLM: the text hook of `trtllm-serve`."""
