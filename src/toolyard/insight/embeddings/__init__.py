"""Embedding models. Each is imported only when it is used.

| `model` | what runs |
|---|---|
| not given | all-MiniLM-L6-v2 in this process, if its weights are installed |
| a folder with `model.onnx` and `tokenizer.json` | onnxruntime, in this process |
| another folder, `sentence-transformers/...` | the sentence-transformers library, which must be installed |
| a mapping `{type: openai, model_id_or_path, base_url, api_key, ...}` | a server with an `/embeddings` endpoint |
"""
