"""Models that turn text into vectors; none is imported before it is asked for.

| `model` | what runs |
|---|---|
| nothing | all-MiniLM-L6-v2 in this process, if its weights are installed |
| a folder with `model.onnx` and `tokenizer.json` | onnxruntime, in this process |
| another folder, `sentence-transformers/...` | the sentence-transformers library, which must be installed |
| a mapping `{type: openai, model_id_or_path, base_url, api_key, ...}` | a server that speaks `/embeddings` |
"""
